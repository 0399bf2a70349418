// Runs with a driver that has FAKE_GPUS devices (tests/support/fakes/fake_cuda_driver.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/checks/memory_checks.h"

namespace buttress {
namespace {

using ::testing::AllOf;
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

// A micro-batch is filled in every step, so what it takes is not a matter of luck.
TEST_F(GpuChecksTest, AGpuMustHoldAFullMicroBatch) {
  model_.config.emplace();
  model_.config->vocab_size = 150000;
  model_.config->hidden_size = 896;
  model_.config->max_positions = 4096;
  model_.config->tie_word_embeddings = true;
  BlockSpec block;
  block.D = 896;
  block.F = 4864;
  block.attention.H = 14;
  block.attention.K = 2;
  block.attention.C = 64;
  model_.config->blocks.assign(24, block);
  EXPECT_THAT(Errors({1, 1}),
              AllOf(HasSubstr("a learner rank needs"), HasSubstr("weights 938.9 MiB"),
                    HasSubstr("(zero: 0); it has 16.0 GiB of GPU 0; "),
                    HasSubstr("set local.learner.recompute")));
  config_.local.learner.recompute = Recompute::kBlock;
  EXPECT_EQ(Errors({1, 1}), "");
  ::setenv("FAKE_GPU_GIB", "8", 1);
  EXPECT_THAT(Errors({1, 1}), HasSubstr("run.optim.precision: stochastic"));
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
