#include "lib/config/run_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/os/file.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

RunConfig With(const std::vector<std::string>& overrides) {
  auto config =
      ParseRunConfig("run: {data: {prompts: p}, model: {path: m}}", "run.yaml", overrides);
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return *config;
}

TEST(RunIdentityTest, TheLengthAndTheLearningRateDoNotChangeTheRun) {
  const RunConfig run = With({});
  const RunConfig longer = With({"run.steps=200", "run.optim.lr=1e-4", "local.out=x"});
  EXPECT_EQ(RunIdentityHash(run), RunIdentityHash(longer));
  EXPECT_NE(RunConfigHash(run), RunConfigHash(longer));
}

TEST(RunIdentityTest, OtherSettingsDo) {
  for (const char* set : {"run.seed=2", "run.sampling.group_size=4", "run.data.prompts=q",
                          "run.reward.verifier=math", "run.algorithm.advantage=rloo"}) {
    EXPECT_NE(RunIdentityHash(With({})), RunIdentityHash(With({set}))) << set;
  }
}

TEST(RunIdentityTest, ChangesNameKeyOldAndNewValueAndWhetherItMayChange) {
  const auto changes =
      ChangesOf(With({}), With({"run.steps=200", "run.sampling.stop=[a, b]",
                                "run.reward.by_source={x: math}", "local.out=elsewhere"}));
  EXPECT_EQ(DescribeChanges(changes),
            "\n  run.steps: 100 -> 200 (may change)\n  run.sampling.stop: [] -> [a, b]"
            "\n  run.reward.by_source: {} -> {x: math}");
}

TEST(RunIdentityTest, TheDocumentationListsTheKeys) {
  const auto page = ReadFile(BUTTRESS_SOURCE_DIR "/docs/running.md");
  ASSERT_TRUE(page.ok());
  for (const std::string& key : ChangeableKeys()) EXPECT_THAT(*page, HasSubstr("`" + key + "`"));
}

}  // namespace
}  // namespace buttress
