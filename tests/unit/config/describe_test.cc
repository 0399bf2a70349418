#include "lib/config/describe.h"

#include <gmock/gmock.h>

#include "lib/config/load.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DescribeTest, EverySettingHasALine) {
  const std::string text = DescribeRunConfig();
  EXPECT_THAT(text, HasSubstr("run.optim.lr  (1e-06)  peak learning rate"));
  EXPECT_THAT(text, HasSubstr("run.algorithm.std  (sample)  standard deviation that the group's "
                              "advantages are divided by: sample | population | none\n"));
  EXPECT_THAT(text, HasSubstr("keep (the estimator decides) | mask (in no loss)"));
  EXPECT_THAT(text, Not(HasSubstr("  \n")));
}

TEST(DescribeTest, WordsChooseSettingsByKeyAndMeaningAndShowThemAsYaml) {
  const auto text = DescribeSettings("PEAK learning");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_THAT(*text, HasSubstr("run.optim.lr  (1e-06)  peak learning rate"));
  EXPECT_THAT(*text, HasSubstr("\nas YAML, with the defaults:\nrun:\n  optim:\n    lr: 1e-06\n"));
  EXPECT_THAT(*text, Not(HasSubstr("warmup_steps")));
}

TEST(DescribeTest, TheYamlOfManySettingsBindsToTheDefaults) {
  const auto text = DescribeSettings("run.algorithm");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const std::string yaml = text->substr(text->find("\nrun:\n") + 1);
  const std::vector<std::string> needed = {"run.data.prompts=p.jsonl", "run.model.path=m"};
  const auto bound = ParseRunConfig(yaml, "all.yaml", needed);
  ASSERT_TRUE(bound.ok()) << bound.status().ToString();
  EXPECT_EQ(PrintRunConfig(*bound), PrintRunConfig(*ParseRunConfig("", "none.yaml", needed)));
  EXPECT_THAT(yaml, HasSubstr("    avspo:\n      mode: "));
}

TEST(DescribeTest, SectionsThatTheUserNamesHaveAPlaceholder) {
  const auto text = DescribeSettings("sources.NAME.weight");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_THAT(*text, HasSubstr("run:\n  data:\n    sources:\n      NAME:\n        weight: "));
}

TEST(DescribeTest, WordsThatNoSettingHasAreAnErrorWithTheNearest) {
  EXPECT_THAT(DescribeSettings("optim.lrr").status().message(),
              HasSubstr("no setting has 'optim.lrr' in its key or meaning"));
  EXPECT_THAT(DescribeSettings("group_sise").status().message(),
              HasSubstr("did you mean 'run.sampling.group_size'?"));
}

TEST(DescribeTest, WholeKeysEndInTheWrongOneOrAreNearIt) {
  EXPECT_EQ(SuggestWholeKeys("optim.lr"), "'run.optim.lr'");
  EXPECT_EQ(SuggestWholeKeys("optim"), "'run.optim'");
  EXPECT_EQ(SuggestWholeKeys("wormup_steps"), "'run.optim.warmup_steps'");
  EXPECT_EQ(SuggestWholeKeys("zzz"), "");
  EXPECT_EQ(SuggestWholeKeys(""), "");
}

}  // namespace
}  // namespace buttress
