#include <gmock/gmock.h>

#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/measure/eval_files.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using StepOfEpoch = std::pair<std::uint64_t, std::int64_t>;

std::vector<StepOfEpoch> Listed(const std::string& out) {
  std::vector<StepOfEpoch> steps;
  for (const PendingEval& pending : ListPendingEvals(out)) {
    EXPECT_EQ(pending.folder, PendingEvalFolderOf(out, pending.learner_epoch, pending.step));
    steps.emplace_back(pending.learner_epoch, pending.step);
  }
  return steps;
}

TEST(PendingEvalsTest, TheOldestComesFirstAndOtherFoldersAreNotListed) {
  const TempDir out;
  EXPECT_TRUE(ListPendingEvals(out.path()).empty());
  for (const auto& [epoch, step] : {StepOfEpoch{2, 10}, {1, 100}, {1, 20}})
    ASSERT_TRUE(MakeFolders(PendingEvalFolderOf(out.path(), epoch, step)).ok());
  for (const char* other : {"part", "v1", "v1.", "v1.5x", "v.5", "step-3"})
    ASSERT_TRUE(MakeFolders(JoinPath(PendingEvalsFolder(out.path()), other)).ok());
  EXPECT_THAT(Listed(out.path()),
              testing::ElementsAre(StepOfEpoch{1, 20}, StepOfEpoch{1, 100}, StepOfEpoch{2, 10}));
}

TEST(PendingEvalsTest, StepsThatAreTrainedAgainAreRemoved) {
  const TempDir out;
  for (const std::int64_t step : {20, 40, 60})
    ASSERT_TRUE(MakeFolders(PendingEvalFolderOf(out.path(), 1, step)).ok());
  ASSERT_TRUE(MakeFolders(UnfinishedEvalFolder(out.path())).ok());
  ASSERT_TRUE(RemovePendingEvalsAfter(out.path(), 40).ok());
  EXPECT_THAT(Listed(out.path()), testing::ElementsAre(StepOfEpoch{1, 20}, StepOfEpoch{1, 40}));
  EXPECT_FALSE(std::filesystem::exists(UnfinishedEvalFolder(out.path())));
}

}  // namespace
}  // namespace buttress
