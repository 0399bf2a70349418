#include "cli/train/next_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/process.h"
#include "cli/train/seed_runs.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NextStepsTest, TheNextCommandsKeepTheSettingsOfTheUser) {
  RunConfig config;
  config.local.out = "/runs/x";
  const TypedLaunch launch{{"my run.yaml", {"run.steps=300", "local.out=/runs/x"}}, {"--no-eval"}};
  const std::string text = WhatToDoNext(launch, config);
  EXPECT_THAT(text, HasSubstr(" launch 'my run.yaml' --set run.steps=300 --set local.out=/runs/x "
                              "--no-eval --seeds 3        # one run says little"));
  EXPECT_THAT(text, HasSubstr(" launch 'my run.yaml' --set run.steps=300 --no-eval --set "
                              "run.algorithm.advantage=avspo --set local.out=/runs/x-avspo "
                              "--seeds 3"));
  EXPECT_THAT(text, HasSubstr(" compare /runs/x-seeds/seed-* /runs/x-avspo-seeds/seed-*"));
  EXPECT_THAT(text, HasSubstr("open /runs/x/page.html"));
}

TEST(NextStepsTest, ARunOfASeriesOrOfSeveralMachinesIsNotRepeated) {
  const RunConfig config;
  EXPECT_THAT(WhatToDoNext({{"a.yaml", {}}, {}, false, 3}, config), Not(HasSubstr("--seeds")));
  EXPECT_THAT(WhatToDoNext({{"a.yaml", {}}, {}, true}, config), Not(HasSubstr("--seeds")));
}

TEST(SeedRunsTest, EachSeedHasAFolderOfItsOwn) {
  RunConfig config;
  config.run.seed = 7;
  config.local.out = "/runs/x";
  const auto files = SeedRuns({"a.yaml", {"run.steps=3"}}, config, 2);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[1].path, "a.yaml");
  EXPECT_THAT(files[1].overrides,
              ElementsAre("run.steps=3", "run.seed=8", "local.out=/runs/x-seeds/seed-8"));
}

TEST(SeedRunsTest, ARunWithOtherSettingsThanItsSeriesIsRefused) {
  const TempDir dir;
  RunConfig config;
  config.run.model.path = "/model";
  config.run.data.prompts = "/train.jsonl";
  config.local.out = dir.path();
  EXPECT_TRUE(CheckSameSettings(config).ok()) << "nothing has begun";
  ASSERT_TRUE(WriteFileAtomic(StoredConfigPath(dir.path()), PrintRunConfig(config)).ok());
  config.run.steps = 11;
  EXPECT_TRUE(CheckSameSettings(config).ok()) << "a series may be lengthened";
  config.run.optim.lr = 0.5;
  const Status refused = CheckSameSettings(config);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("run.optim.lr"), Not(HasSubstr("run.steps"))));
}

TEST(ShellWordTest, OnlyWhatNeedsQuotesHasThem) {
  EXPECT_EQ(ShellWord("run.steps=3"), "run.steps=3");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace buttress
