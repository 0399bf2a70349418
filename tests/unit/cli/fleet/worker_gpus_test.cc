#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/fleet/fleet.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LocalSettings OnGpus(std::int64_t ranks, std::int64_t workers) {
  LocalSettings local;
  local.learner.device = ComputeDevice::kCuda;
  local.worker.device = ComputeDevice::kCuda;
  local.launch.learner_ranks = ranks;
  local.launch.workers = workers;
  return local;
}

TEST(WorkerGpusTest, WorkersTakeTheGpusAfterThoseOfTheLearner) {
  EXPECT_THAT(*AssignWorkerGpus(OnGpus(4, 4), 8), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(*AssignWorkerGpus(OnGpus(1, 2), 8), ElementsAre(1, 2));
}

TEST(WorkerGpusTest, ALearnerOnTheCpuLeavesTheGpusToTheWorkers) {
  LocalSettings local = OnGpus(2, 2);
  local.learner.device = ComputeDevice::kCpu;
  EXPECT_THAT(*AssignWorkerGpus(local, 2), ElementsAre(0, 1));
}

TEST(WorkerGpusTest, TooFewGpusAreAnErrorWithTheMend) {
  const auto gpus = AssignWorkerGpus(OnGpus(1, 1), 1);
  EXPECT_EQ(gpus.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(gpus.status().message(),
              HasSubstr("1 learner ranks and 1 workers on GPUs need 2, but 1 are visible"));
  EXPECT_THAT(gpus.status().message(), HasSubstr("local.worker.gpu"));
}

TEST(WorkerGpusTest, ANamedGpuIsSharedAndOtherEnginesTakeNone) {
  LocalSettings local = OnGpus(1, 2);
  local.worker.gpu = 0;
  EXPECT_FALSE(WorkersNeedGpus(local));
  EXPECT_THAT(*AssignWorkerGpus(local, 1), IsEmpty());
  local = OnGpus(1, 2);
  local.worker.engine = EngineKind::kVllm;
  EXPECT_THAT(*AssignWorkerGpus(local, 1), IsEmpty());
  local = OnGpus(1, 2);
  local.worker.device = ComputeDevice::kCpu;
  EXPECT_THAT(*AssignWorkerGpus(local, 1), IsEmpty());
}

}  // namespace
}  // namespace buttress
