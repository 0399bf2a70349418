#include <gmock/gmock.h>

#include <cmath>

#include "learner/output/job_checkpoints.h"
#include "lib/base/os/file.h"
#include "lib/measure/eval_files.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class KeptCheckpointsTest : public testing::Test {
 protected:
  KeptCheckpointsTest() {
    config_.local.out = out_.path();
    config_.run.checkpoint_interval = 2;
    config_.run.checkpoints.keep_best = 2;
  }

  void Evaluated(std::int64_t step, double accuracy) const {
    EvalRow row;
    row.step = step;
    row.accuracy = accuracy;
    ASSERT_TRUE(AddEval(out_.path(), row).ok());
  }

  TempDir out_;
  RunConfig config_;
  const std::vector<std::int64_t> steps_ = {10, 8, 6, 4, 2};
};

TEST_F(KeptCheckpointsTest, TheBestByTheRewardOfTheStepsBeforeThemAreKept) {
  KeptCheckpoints kept(config_);
  const double rewards[] = {0.9, 0.1, 0.6, 0.6, 0.5, 0.5, 0.8, std::nan(""), 0.5, 0.5};
  for (std::int64_t step = 1; step <= 10; ++step)
    kept.AddStep(step, rewards[static_cast<std::size_t>(step - 1)]);
  // Means: 0.5, 0.6, 0.5, (0.5 + 0.8) / 2, 0.5.
  EXPECT_THAT(kept.Kept(steps_), ElementsAre(4, 8));
  EXPECT_DOUBLE_EQ(*kept.RewardOfLastStep(), 0.5);
  EXPECT_THAT(kept.Kept(std::vector<std::int64_t>{10, 6, 2}), ElementsAre(2, 6));
  kept.AddStep(11, 1);
  EXPECT_FALSE(kept.RewardOfLastStep());  // 11 is no multiple of the interval
  config_.run.checkpoints.keep_best = 0;
  EXPECT_THAT(kept.Kept(steps_), IsEmpty());
}

TEST_F(KeptCheckpointsTest, WithEvaluationsTheirAccuracyDecidesAndTheRewardDoesNot) {
  config_.run.eval.every = 2;
  KeptCheckpoints kept(config_);
  for (std::int64_t step = 1; step <= 10; ++step) kept.AddStep(step, step == 6 ? 1 : 0);
  EXPECT_THAT(kept.Kept(steps_), IsEmpty());
  Evaluated(2, 0.7);
  Evaluated(3, 0.9);  // of no checkpoint
  Evaluated(4, 0.2);
  Evaluated(6, std::nan(""));
  Evaluated(8, 0.3);
  EXPECT_THAT(kept.Kept(steps_), ElementsAre(2, 8));
  EXPECT_FALSE(kept.RewardOfLastStep());
}

TEST_F(KeptCheckpointsTest, ACheckpointWhoseEvaluationIsOpenStays) {
  config_.run.eval.every = 2;
  const KeptCheckpoints kept(config_);
  Evaluated(2, 0.7);
  Evaluated(4, 0.8);
  Evaluated(6, 0.1);
  ASSERT_TRUE(MakeFolders(PendingEvalFolderOf(out_.path(), 1, 8)).ok());
  ASSERT_TRUE(MakeFolders(PendingEvalFolderOf(out_.path(), 1, 9)).ok());
  EXPECT_THAT(kept.Kept(steps_), ElementsAre(2, 4, 8));
}

TEST_F(KeptCheckpointsTest, WithoutReadableResultsAllStay) {
  config_.run.eval.every = 2;
  ASSERT_TRUE(WriteFileAtomic(EvalsPath(out_.path()), "?\n").ok());
  EXPECT_EQ(KeptCheckpoints(config_).Kept(steps_).size(), steps_.size());
}

}  // namespace
}  // namespace buttress
