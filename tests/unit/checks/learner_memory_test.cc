#include "lib/checks/learner_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr double kOneGiB = 1 << 30;

// The shape of Qwen2.5-7B.
ModelConfig SevenBillion() {
  ModelConfig config;
  config.vocab_size = 152064;
  config.hidden_size = 3584;
  config.max_positions = 32768;
  BlockSpec block;
  block.D = 3584;
  block.F = 18944;
  block.qkv_bias = true;
  block.attention.H = 28;
  block.attention.K = 4;
  block.attention.C = 128;
  config.blocks.assign(28, block);
  return config;
}

RunConfig OnGpus() {
  RunConfig config;
  config.run.model.dtype = ModelDtype::kBfloat16;
  config.run.sampling.max_tokens = 2048;
  config.run.sampling.group_size = 16;
  config.local.learner.device = ComputeDevice::kCuda;
  return config;
}

MemoryPlan PlanOf(const RunConfig& config, std::int64_t ranks = 1,
                  ZeroStage stage = ZeroStage::k0) {
  return PlanLearnerMemory(config, SevenBillion(), FullMicroBatch(config, SevenBillion()), ranks,
                           stage);
}

MicroBatchShape Group(std::size_t completions, std::int64_t prompt, std::int64_t tokens) {
  MicroBatchShape shape;
  shape.AddGroup(prompt, std::vector<std::int64_t>(completions, tokens),
                 static_cast<std::int64_t>(completions) * tokens);
  return shape;
}

double SumOf(const std::vector<double>& sizes) {
  double sum = 0;
  for (const double size : sizes) sum += size;
  return sum;
}

TEST(LearnerMemoryTest, TheUnitsHaveTheParametersOfTheModel) {
  const std::vector<double> units = UnitSizes(SevenBillion());
  EXPECT_EQ(units.size(), 30u);
  EXPECT_EQ(SumOf(units), 7615616512.0);  // as transformers counts them
  ModelConfig tied = SevenBillion();
  tied.tie_word_embeddings = true;
  EXPECT_EQ(UnitSizes(tied).back(), 3584);
}

// Nothing but weights of the model, and float32 weights, gradients and moments of the adapters.
TEST(LearnerMemoryTest, OfAFrozenModelOnlyAdaptersHaveState) {
  RunConfig config = OnGpus();
  config.run.algorithm.kl_coef = 0.1;
  config.run.lora.rank = 16;
  MemoryPlan plan = PlanOf(config);
  const double adapters = 40370176;  // as peft counts them
  EXPECT_EQ(plan.weights, 2 * 7615616512.0 + 4 * adapters);
  EXPECT_EQ(plan.gradients, 4 * adapters);
  EXPECT_EQ(plan.moments, 8 * adapters);
  EXPECT_EQ(plan.masters + plan.reference, 0);
  config.run.lora.targets = {LoraTarget::kQ, LoraTarget::kV};
  plan = PlanOf(config, 4, ZeroStage::k1);
  EXPECT_EQ(plan.moments, 8 * 28 * 16 * (2 * 3584.0 + 3584 + 512) / 4);
}

TEST(LearnerMemoryTest, AReferenceOnTheDiskTakesTwoUnits) {
  RunConfig config = OnGpus();
  config.run.algorithm.kl_coef = 0.1;
  config.run.optim.precision = OptimPrecision::kStochastic;
  config.local.learner.recompute = Recompute::kBlock;
  EXPECT_EQ(AdviceFor(PlanOf(config), config), "set local.learner.reference: disk");
  config.local.learner.reference = ReferencePlace::kDisk;
  EXPECT_THAT(AdviceFor(PlanOf(config), config), HasSubstr("local.launch.learner_ranks"));
  const std::vector<double> units = UnitSizes(SevenBillion());
  EXPECT_EQ(PlanOf(config).reference, 2 * (units.back() + units[1]));
  EXPECT_EQ(PlanOf(config, 8, ZeroStage::k3).reference, 2 * (units.back() + units[1]));
  config.run.lora.rank = 16;
  config.run.lora.adapter = "DIR";  // whose values are kept
  EXPECT_EQ(PlanOf(config, 8, ZeroStage::k3).reference, 4 * 40370176.0);
}

TEST(LearnerMemoryTest, AParameterTakesTheBytesOfItsPrecision) {
  RunConfig config = OnGpus();
  const double all = SumOf(UnitSizes(SevenBillion()));
  const auto bytes = [&] {
    const MemoryPlan plan = PlanOf(config);
    return (plan.state() - plan.libraries) / all;
  };
  EXPECT_EQ(bytes(), 18);
  config.run.algorithm.kl_coef = 0.1;  // and a reference model
  EXPECT_EQ(bytes(), 20);
  config.run.optim.precision = OptimPrecision::kStochastic;
  EXPECT_EQ(bytes(), 12);
  config.run.model.dtype = ModelDtype::kFloat32;
  EXPECT_EQ(bytes(), 20);
}

TEST(LearnerMemoryTest, AStageHoldsItsPartOfTheState) {
  const std::vector<double> units = UnitSizes(SevenBillion());
  const double all = SumOf(units), block = units[1], head = units.back();
  const MemoryPlan none = PlanOf(OnGpus(), 8);
  EXPECT_EQ(none.weights, 2 * all);
  EXPECT_EQ(none.masters + none.moments, 12 * all);
  EXPECT_EQ(none.gradients, 4 * all / 8);
  // The gradient of the head, and those of embedding and first block from the pass before, whose
  // sums have a place each.
  EXPECT_EQ(none.head - PlanOf(OnGpus()).head, 4 * (head + (units[0] + block) * 9 / 8));
  EXPECT_EQ(none.update, 4 * head);
  for (const ZeroStage stage : {ZeroStage::k1, ZeroStage::k2}) {
    const MemoryPlan plan = PlanOf(OnGpus(), 8, stage);
    EXPECT_EQ(plan.weights, 2 * all);
    EXPECT_EQ(plan.gradients, none.gradients);
    EXPECT_EQ(plan.masters + plan.moments, 12 * all / 8);
    EXPECT_EQ(plan.update, 0);
  }
  const MemoryPlan third = PlanOf(OnGpus(), 8, ZeroStage::k3);
  EXPECT_EQ(third.weights, 2 * all / 8);
  EXPECT_EQ(third.gathered, 2 * (head + block));
}

TEST(LearnerMemoryTest, RecomputeKeepsTheInputsOfBlocks) {
  RunConfig config = OnGpus();
  const double all = PlanOf(config).activations;
  EXPECT_GT(all, 80 * kOneGiB);  // more than a GPU of 80 GiB has
  config.local.learner.recompute = Recompute::kBlock;
  const MemoryPlan one = PlanOf(config);
  EXPECT_LT(one.activations + one.block, all / 5);
}

TEST(LearnerMemoryTest, RanksDivideTheRowsOfAMicroBatch) {
  for (const std::int64_t completion : {2048, 60000}) {
    RunConfig config = OnGpus();
    config.run.sampling.max_tokens = completion;
    const MemoryPlan one = PlanOf(config, 8, ZeroStage::k3);
    for (const std::int64_t ranks : {2, 4}) {
      config.local.learner.context_parallel = ranks;
      const MemoryPlan plan = PlanOf(config, 8, ZeroStage::k3);
      EXPECT_EQ(plan.state(), one.state());
      EXPECT_NEAR(plan.activations / one.activations, 1.0 / static_cast<double>(ranks), 0.02);
      EXPECT_LT(plan.head, one.head);
    }
    config.local.learner.recompute = Recompute::kBlock;
    config.run.sampling.max_tokens = 1 << 20;
    EXPECT_THAT(AdviceFor(PlanOf(config, 8, ZeroStage::k3), config),
                HasSubstr("or raise local.learner.context_parallel"));
  }
}

// Ranks that divide the rows of a micro-batch attend over all of them with a part of the heads.
// Ranks that divide the experts exchange rows.
TEST(LearnerMemoryTest, TheBoundIsOfOneOfTheRanksThatDivideAMicroBatchOrItsExperts) {
  LearnerConfig learner;
  learner.device = ComputeDevice::kCuda;
  learner.micro_batch_mib = 1;
  ModelConfig model = SevenBillion();
  const auto bytes = [&] {
    return BoundOf(OnGpus().run, learner, model).bytes(Group(4, 512, 4096));
  };
  double whole = bytes();
  learner.context_parallel = 4;
  EXPECT_NEAR(bytes() / whole, 0.25, 0.01);
  learner.context_parallel = 1;
  for (BlockSpec& block : model.blocks) block.experts = {8, 2, true};
  whole = bytes();
  learner.expert_parallel = true;
  const double rows = 512 + 4 * 4095;
  EXPECT_GE(bytes() - whole, 28 * rows * 2 * 2 * 2 * 3584);
}

// Keys and values of a shared prompt come with each completion behind it.
TEST(LearnerMemoryTest, OffloadedStateIsNotInTheMemoryOfTheDevice) {
  RunConfig config = OnGpus();
  const auto state = [&](Offload offload) {
    config.local.learner.offload = offload;
    const MemoryPlan plan =
        PlanLearnerMemory(config, SevenBillion(), Group(1, 8, 8), 1, ZeroStage::k0);
    return plan.masters + plan.moments;
  };
  EXPECT_GT(state(Offload::kNone), 80 * kOneGiB);
  EXPECT_EQ(state(Offload::kHost), 0);
  EXPECT_EQ(state(Offload::kDisk), 0);
  config.local.learner.device = ComputeDevice::kCpu;
  EXPECT_GT(state(Offload::kHost), 80 * kOneGiB);
}

// CPUs keep the keys and values of a prompt for each of its completions; flash attention gathers a
// bounded number of them when it needs them.
TEST(LearnerMemoryTest, SharedPromptsTakeMoreThanTheirRowsOnCpusOnly) {
  RunConfig config = OnGpus();
  const auto of = [&](const MicroBatchShape& shape) {
    return PlanLearnerMemory(config, SevenBillion(), shape, 1, ZeroStage::k0).activations;
  };
  const MicroBatchShape behind = Group(16, 8192, 513), alone = Group(1, 8192, 8193);
  EXPECT_EQ(behind.rows(), alone.rows());
  EXPECT_LT(of(behind), of(alone) + kOneGiB);
  config.local.learner.device = ComputeDevice::kCpu;
  EXPECT_GT(of(behind), of(alone) + 28 * 16 * 8704.0 * 2 * 512 * 2 - kOneGiB);
}

TEST(LearnerMemoryTest, AFullMicroBatchHasTheLongestOfTheRun) {
  RunConfig config = OnGpus();
  config.run.data.max_prompt_tokens = 1024;
  const MicroBatchShape shape = FullMicroBatch(config, SevenBillion());
  // 1,024 + 7 x 2,048 of 16,384, and a last completion in the 1,024 that are left.
  MicroBatchShape expected = Group(7, 1024, 2048);
  expected.AddGroup(1023, std::vector<std::int64_t>{1}, 1);
  EXPECT_EQ(shape.sequences, expected.sequences);
  EXPECT_EQ(shape.scored, 7 * 2048 + 1);
  config.run.batch.prompts = 1;
  EXPECT_EQ(FullMicroBatch(config, SevenBillion()).sequences, Group(7, 1024, 2048).sequences);
  config.run.sampling.max_tokens = 20000;  // which goes alone
  EXPECT_EQ(FullMicroBatch(config, SevenBillion()).rows(), 21023);
}

// The plan of a start shrinks with the bound, down to a completion that goes alone.
TEST(LearnerMemoryTest, AFullMicroBatchTakesNoMoreThanItsBound) {
  RunConfig config = OnGpus();
  config.local.learner.recompute = Recompute::kBlock;
  double before = PlanOf(config).pass();
  for (const std::int64_t mib : {8192, 4096, 2048}) {
    config.local.learner.micro_batch_mib = mib;
    const double pass = PlanOf(config).pass();
    EXPECT_LE(pass, static_cast<double>(mib << 20));
    EXPECT_LT(pass, before);
    before = pass;
  }
  config.local.learner.micro_batch_mib = 1;
  const MicroBatchShape shape = FullMicroBatch(config, SevenBillion());
  EXPECT_EQ(shape.sequences.size(), 1u);
  EXPECT_EQ(shape.scored, 2048);
}

// Rows of one rectangle have the length of its longest sequence.
TEST(LearnerMemoryTest, SequencesOfDifferentLengthsArePaddedOnCpus) {
  RunConfig config = OnGpus();
  const auto of = [&](std::vector<std::int64_t> lengths) {
    MicroBatchShape shape;
    for (const std::int64_t length : lengths)
      shape.AddGroup(1, std::vector<std::int64_t>{length}, 0);
    return PlanLearnerMemory(config, SevenBillion(), shape, 1, ZeroStage::k0).activations;
  };
  EXPECT_EQ(of({1000, 900}), of({950, 950}));
  config.local.learner.device = ComputeDevice::kCpu;
  EXPECT_GT(of({1000, 900}), of({950, 950}));
  EXPECT_LT(of({1000, 700}), of({1000, 900}));
}

// Products of frozen weights keep no inputs, except where an adapter needs them.
TEST(LearnerMemoryTest, AFrozenModelKeepsLess) {
  RunConfig config = OnGpus();
  const double all = PlanOf(config).activations;
  config.run.lora.rank = 16;
  EXPECT_EQ(PlanOf(config).activations, all);
  config.run.lora.targets = {LoraTarget::kQ};
  const double rows = static_cast<double>(FullMicroBatch(config, SevenBillion()).rows());
  EXPECT_EQ(all - PlanOf(config).activations, 28 * rows * 2 * (3584 + 18944));
}

TEST(LearnerMemoryTest, AutoTakesTheLowestStageThatFits) {
  RunConfig config = OnGpus();
  config.local.learner.zero = ZeroStage::kAuto;
  config.local.learner.recompute = Recompute::kBlock;
  const auto stage = [&](std::int64_t ranks, double bytes) {
    return ChooseZeroStage(config, SevenBillion(), ranks, bytes);
  };
  EXPECT_EQ(*stage(8, 500 * kOneGiB), ZeroStage::k0);
  EXPECT_EQ(*stage(8, PlanOf(config, 8, ZeroStage::k1).peak()), ZeroStage::k1);
  EXPECT_EQ(*stage(8, PlanOf(config, 8, ZeroStage::k3).peak()), ZeroStage::k3);
  config.local.learner.zero = ZeroStage::k2;  // the setting, whatever fits
  EXPECT_EQ(*stage(8, kOneGiB), ZeroStage::k2);
}

TEST(LearnerMemoryTest, ExpertsThatStayDividedAreNotGathered) {
  RunConfig config = OnGpus();
  config.local.learner.recompute = Recompute::kBlock;  // gradients outweigh what a block frees
  ModelConfig model = SevenBillion();
  model.vocab_size = 4096;  // experts outweigh the tables
  for (BlockSpec& block : model.blocks) block.experts = {32, 4, true}, block.F /= 32;
  const auto plan = [&] {
    return PlanLearnerMemory(config, model, FullMicroBatch(config, model), 8, ZeroStage::k3);
  };
  const MemoryPlan gathered = plan();
  config.local.learner.expert_parallel = true;
  EXPECT_LT(plan().gathered, gathered.gathered / 2);
  EXPECT_LT(plan().block, gathered.block);
  EXPECT_EQ(plan().weights, gathered.weights);
  config.local.learner.zero = ZeroStage::kAuto;
  EXPECT_EQ(*ChooseZeroStage(config, model, 8, 500 * kOneGiB), ZeroStage::k3);
  EXPECT_THAT(ChooseZeroStage(config, model, 5, 500 * kOneGiB).status().message(),
              HasSubstr("5 ranks cannot divide the 32 experts of a block equally"));
  EXPECT_THAT(ChooseZeroStage(config, SevenBillion(), 8, 500 * kOneGiB).status().message(),
              HasSubstr("without experts"));
}

TEST(LearnerMemoryTest, WhatFitsNowhereIsSaidWithWhatToChange) {
  RunConfig config = OnGpus();
  config.local.learner.zero = ZeroStage::kAuto;
  const auto error = [&](std::int64_t ranks, double bytes) {
    return ChooseZeroStage(config, SevenBillion(), ranks, bytes).status().message();
  };
  EXPECT_THAT(error(8, 60 * kOneGiB),
              HasSubstr("no stage fits a job of 8 ranks: a rank has 60.0 GiB and needs"));
  EXPECT_THAT(error(8, 60 * kOneGiB),
              HasSubstr("lower local.learner.micro_batch_tokens (16384) or set "
                        "local.learner.recompute"));
  config.local.learner.micro_batch_mib = 100000;
  EXPECT_THAT(error(8, 60 * kOneGiB), HasSubstr("lower local.learner.micro_batch_tokens (16384) or "
                                                "local.learner.micro_batch_mib (100000) or set"));
  config.local.learner.micro_batch_mib = 0;
  config.local.learner.recompute = Recompute::kBlock;
  EXPECT_THAT(error(1, 80 * kOneGiB), HasSubstr("set run.optim.precision: stochastic"));
  config.run.optim.precision = OptimPrecision::kStochastic;
  EXPECT_THAT(error(1, 60 * kOneGiB), HasSubstr("more ranks"));
}

TEST(LearnerMemoryTest, ThePartsAreNamed) {
  const std::string text = DescribePlan(PlanOf(OnGpus()));
  EXPECT_THAT(text, HasSubstr("GiB at most: weights 14.2 GiB, gradients 28.4 GiB, masters 28.4 "
                              "GiB, moments 56.7 GiB, activations"));
}

}  // namespace
}  // namespace buttress
