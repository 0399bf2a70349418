// Runs with a driver that has FAKE_GPUS devices (tests/support/fakes/fake_cuda_driver.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/checks/memory_checks.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

class GpuChecksTest : public ::testing::Test {
 protected:
  GpuChecksTest() {
    ::setenv("FAKE_GPUS", "2", 1);
    ::setenv("FAKE_GPU_GIB", "16", 1);
    ::unsetenv("FAKE_GPUS_FAIL");
    model_.parameters = 500000000;
    config_.local.learner.device = config_.local.worker.device = ComputeDevice::kCuda;
    config_.run.model.dtype = ModelDtype::kBfloat16;
  }

  std::string Errors(const ProcessCounts& processes) const {
    Findings findings;
    CheckGpus(config_, model_, processes, findings);
    return findings.Verdict().message();
  }

  ModelFacts model_;
  RunConfig config_;
};

TEST_F(GpuChecksTest, EveryRankAndWorkerNeedsAGpu) {
  EXPECT_EQ(Errors({1, 1}), "");
  EXPECT_THAT(Errors({2, 1}), HasSubstr("1 learner ranks and 2 workers need 3 GPUs, but 2 are"));
  config_.local.worker.gpu = 1;  // which the workers share
  EXPECT_EQ(Errors({3, 1}), "");
  config_.local.worker.gpu = 2;
  EXPECT_THAT(Errors({1, 1}), HasSubstr("need 3 GPUs"));
}

TEST_F(GpuChecksTest, AGpuMustHoldTheStateOfItsProcess) {
  ::setenv("FAKE_GPU_GIB", "8", 1);
  EXPECT_THAT(Errors({1, 1}),
              HasSubstr("GPU 0: 8.4 GiB to 8.4 GiB are needed, it has 8.0 GiB; lower "
                        "local.learner.micro_batch_tokens"));
  config_.run.optim.precision = OptimPrecision::kStochastic;
  EXPECT_EQ(Errors({1, 1}), "");
}

TEST_F(GpuChecksTest, WithoutADriverThereIsNoGpuAndNothingThatNeedsOne) {
  ::setenv("FAKE_GPUS_FAIL", "1", 1);
  EXPECT_THAT(Errors({1, 1}), HasSubstr("no CUDA-capable device"));
  config_.local.learner.device = config_.local.worker.device = ComputeDevice::kCpu;
  Findings findings;
  CheckGpus(config_, model_, {1, 1}, findings);
  ASSERT_EQ(findings.list().size(), 1u);
  EXPECT_THAT(findings.list().front().text, HasSubstr("skipped"));
}

}  // namespace
}  // namespace buttress
