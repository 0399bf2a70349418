#include "lib/checks/memory_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kGiBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMillion = 1000000;

// 500 million parameters.
ModelFacts HalfABillion() {
  ModelFacts model;
  model.parameters = 500 * kMillion;
  ModelConfig config;
  config.vocab_size = 150000;
  config.hidden_size = 896;
  config.max_positions = 4096;
  config.tie_word_embeddings = true;
  BlockSpec block;
  block.D = 896;
  block.F = 4864;
  block.attention.H = 14;
  block.attention.K = 2;
  block.attention.C = 64;
  config.blocks.assign(24, block);
  model.config = config;
  return model;
}

RunConfig InBFloat16() {
  RunConfig config;
  config.run.model.dtype = ModelDtype::kBfloat16;
  return config;
}

// What is said of the machine; the plan of a rank, if there is one, comes before it.
Finding CheckWith(const RunConfig& config, MachineMemory machine, ProcessCounts counts = {1, 1}) {
  Findings findings;
  CheckMemory(config, HalfABillion(), counts, machine, findings);
  return findings.list().empty() ? Finding{} : findings.list().back();
}

TEST(MemoryChecksTest, ACacheHasKeysAndValuesOfEveryBlock) {
  RunConfig config = InBFloat16();
  config.local.worker.device = ComputeDevice::kCuda;
  config.local.worker.kv_cache_tokens = 1000;
  const MemoryNeed need = WorkerMemory(config, HalfABillion());
  // 2 heads of 64 values, keys and values, 24 blocks, 2 bytes; and the weights that are read.
  EXPECT_EQ(need.passes, 1000.0 * 2 * 64 * 2 * 24 * 2 + need.state);
  config.run.lora.rank = 4;
  EXPECT_EQ(WorkerMemory(config, HalfABillion()).passes, 1000.0 * 2 * 64 * 2 * 24 * 2);
  config.local.worker.engine = EngineKind::kVllm;
  EXPECT_EQ(WorkerMemory(config, HalfABillion()).most(), 0);
}

TEST(MemoryChecksTest, AMachineMustHoldTheStatesAndShouldHoldThePasses) {
  RunConfig config = InBFloat16();  // 8.4 GiB of a rank, 0.9 of a worker
  EXPECT_EQ(CheckWith(config, {1024 * kGiBytes, 0}).severity, Severity::kOk);
  const Finding small = CheckWith(config, {9 * kGiBytes, 0});
  EXPECT_EQ(small.severity, Severity::kError);
  EXPECT_THAT(small.text, HasSubstr("the machine has 9.0 GiB"));
  const Finding tight = CheckWith(config, {10 * kGiBytes, 0});
  EXPECT_EQ(tight.severity, Severity::kWarning);
  EXPECT_THAT(tight.text, HasSubstr("lower local.learner.micro_batch_tokens (16384)"));
  EXPECT_EQ(CheckWith(config, {10 * kGiBytes, 0}, {1, 2}).severity, Severity::kError);
}

TEST(MemoryChecksTest, TheSettingThatLowersTheLargestPartIsNamed) {
  RunConfig config = InBFloat16();
  config.local.learner.micro_batch_tokens = 512;
  config.run.sampling.max_tokens = 128;
  config.local.worker.kv_cache_tokens = 4096;
  EXPECT_THAT(CheckWith(config, {kGiBytes, 0}).text, HasSubstr("run.optim.precision: stochastic"));
  config.run.model.dtype = ModelDtype::kFloat32;
  EXPECT_THAT(CheckWith(config, {kGiBytes, 0}).text, HasSubstr("run.model.dtype: bfloat16"));
  config.local.worker.kv_cache_tokens = 262144;
  EXPECT_THAT(CheckWith(config, {kGiBytes, 0}, {4, 0}).text,
              HasSubstr("lower local.worker.kv_cache_tokens"));
}

TEST(MemoryChecksTest, OtherProgramsMayHoldTheMemory) {
  const Finding busy = CheckWith(InBFloat16(), {1024 * kGiBytes, 2 * kGiBytes});
  EXPECT_EQ(busy.severity, Severity::kWarning);
  EXPECT_THAT(busy.text, HasSubstr("of which 2.0 GiB are free; end other programs"));
}

TEST(MemoryChecksTest, ThePlanOfARankIsShown) {
  Findings findings;
  CheckMemory(InBFloat16(), HalfABillion(), {0, 2}, {1024 * kGiBytes, 0}, findings);
  ASSERT_EQ(findings.list().size(), 2u);
  EXPECT_EQ(findings.list().front().check, "memory of a learner rank");
  EXPECT_THAT(findings.list().front().text, HasSubstr("(zero: 0)"));
}

TEST(MemoryChecksTest, AutoShardsOverTheRanksOfTheJob) {
  RunConfig config = InBFloat16();
  config.local.learner.zero = ZeroStage::kAuto;
  config.local.learner.recompute = Recompute::kBlock;
  const MachineMemory machine{9 * kGiBytes, 0};
  const auto check = [&](ProcessCounts counts) {
    Findings findings;
    CheckMemory(config, HalfABillion(), counts, machine, findings);
    return findings.list().front();
  };
  const Finding alone = check({0, 1});
  EXPECT_EQ(alone.severity, Severity::kError);
  EXPECT_THAT(alone.text, HasSubstr("no stage fits a job of 1 ranks"));
  EXPECT_THAT(check({0, 1, 8}).text, HasSubstr("(zero: 1)"));
}

TEST(MemoryChecksTest, AReferenceOnTheDiskNeedsACoefficientAndNoAdapters) {
  RunConfig config;
  const auto found = [&config] {
    Findings findings;
    CheckReference(config, findings);
    return findings.list().empty() ? Finding{} : findings.list().back();
  };
  EXPECT_EQ(found(), Finding{});
  config.local.learner.reference = ReferencePlace::kDisk;
  EXPECT_EQ(found().severity, Severity::kWarning);
  EXPECT_THAT(found().text, HasSubstr("no effect where run.algorithm.kl_coef is 0"));
  config.run.algorithm.kl_coef = 0.1;
  EXPECT_EQ(found(), Finding{});
  config.run.lora.rank = 4;
  EXPECT_THAT(found().text, HasSubstr("no effect with run.lora"));
}

}  // namespace
}  // namespace buttress
