// Micro-batches that are bounded by the bytes of their activations.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>
#include <vector>

#include "bench/train/drawn_groups.h"
#include "learner/trainer.h"
#include "lib/checks/learner_memory.h"
#include "lib/policy/adapters/adapted_model.h"
#include "tests/support/live_bytes.h"
#include "tests/unit/learner/small_model.h"

namespace buttress {
namespace {

constexpr double kMiB = 1 << 20;

class MicroBatchBoundTest : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    config.vocab_size = 512;
    config.hidden_size = 64;
    config.max_positions = 512;
    for (BlockSpec& block : config.blocks) {
      block.D = 64;
      block.F = 256;
      block.attention.C = 32;
    }
    run.batch.prompts = 6;
    run.sampling.group_size = 4;
    run.sampling.max_tokens = 200;
  }

  // Trains a step on groups of different lengths, and measures what it takes beyond the gradients.
  StepState Train() {
    auto model = Transformer::Random(config, run.model.dtype, {}, 1);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_TRUE(!run.lora.on() || StartAdapters(run.lora, 1, **model).ok());
    const auto group = MakeLocalCollective();
    DrawnGroups source({run.batch.prompts, run.sampling.group_size, {16, 96}, {16, 200}, 512});
    Trainer trainer({run, learner, "/dev/null"}, **model, nullptr, *group, *group, source);
    double gradients = 0;
    for (const ParameterUnit& unit : (*model)->units())
      gradients += unit.trainable ? 4 * static_cast<double>(unit.size()) : 0;
    const LiveBytes bytes;
    auto state = trainer.Step(1, [] { return false; });
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    taken = static_cast<double>(bytes.peak()) - gradients;
    shape = {};
    for (std::int64_t k = 0; k < run.batch.prompts; ++k) {
      const v1::Group drawn = source.Group(1, k);
      std::vector<std::int64_t> lengths;
      for (int i = 0; i < Completions(drawn.head()); ++i)
        lengths.push_back(std::ssize(TokensOf(drawn, i)));
      shape.AddGroup(drawn.head().prompt_tokens(), lengths,
                     std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
    }
    return *std::move(state);
  }

  ModelConfig config = SmallModelConfig();
  RunSettings run;
  LearnerConfig learner;
  double taken = 0;       // bytes
  MicroBatchShape shape;  // of the whole step
};

TEST_F(MicroBatchBoundTest, HoldsInAStepAndChangesNothingBeyondRounding) {
  for (const ModelDtype dtype : {ModelDtype::kFloat32, ModelDtype::kBfloat16}) {
    run.model.dtype = dtype;
    learner.micro_batch_mib = 0;
    const StepState whole = Train();
    EXPECT_EQ(whole.assignment.rounds_of(0), 1);
    EXPECT_GT(taken, 16 * kMiB);
    learner.micro_batch_mib = 8;
    const StepState split = Train();
    EXPECT_GE(split.assignment.rounds_of(0), 3);
    EXPECT_LT(taken, 8 * kMiB);
    EXPECT_GT(taken, 5 * kMiB);
    const double rounding = dtype == ModelDtype::kFloat32 ? 2e-6 : 5e-3;
    EXPECT_NEAR(split.measured.loss, whole.measured.loss, rounding);
    EXPECT_NEAR(split.measured.grad_norm, whole.measured.grad_norm,
                rounding * whole.measured.grad_norm);
  }
}

// Sequences of all lengths in one micro-batch, which attention pads, and frozen weights.
TEST_F(MicroBatchBoundTest, APlanIsNearWhatItsSequencesTake) {
  for (const ModelDtype dtype : {ModelDtype::kFloat32, ModelDtype::kBfloat16}) {
    for (const LoraTarget target : {LoraTarget::kAll, LoraTarget::kQ}) {
      for (const std::int64_t rank : {0, 4}) {
        run.model.dtype = dtype;
        run.lora.rank = rank;
        run.lora.targets = {target};
        Train();
        learner.micro_batch_mib = 1;
        const double planned = BoundOf(run, learner, config).bytes(shape);
        learner.micro_batch_mib = 0;
        EXPECT_NEAR(planned / taken, 1, 0.1)
            << ChoiceName(dtype) << " " << ChoiceName(target) << " " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace buttress
