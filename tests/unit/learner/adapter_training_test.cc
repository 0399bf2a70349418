// Training of adapters by the trainer.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "learner/trainer.h"
#include "lib/policy/adapters/adapted_model.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/learner/fake_source.h"
#include "tests/unit/learner/local_checkpoints.h"

namespace buttress {
namespace {

class AdapterTrainingTest : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    run.lora.rank = 2;
  }

  // A trainer of a model with new adapters. `own_reference` loads the start model for the KL term,
  // which is the model without its adapters otherwise.
  void Make(bool own_reference = false) {
    model = SmallModel(dtype);
    ASSERT_TRUE(StartAdapters(run.lora, run.seed, *model).ok());
    start = own_reference ? SmallModel(dtype) : nullptr;
    if (own_reference && !run.lora.adapter.empty()) {
      ASSERT_TRUE(StartAdapters(run.lora, run.seed, *start).ok());
    }
    trainer = std::make_unique<Trainer>(TrainerOptions{run, learner, dir.path() + "/bad.json"},
                                        *model, own_reference ? start.get() : model.get(), *group,
                                        *group, source);
  }

  void Train(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) {
      const auto state = trainer->Step(step, [] { return false; });
      ASSERT_TRUE(state.ok()) << state.status().ToString();
      ref_kl = state->measured.ref_kl;
    }
  }

  std::vector<at::Tensor> Copies() const {
    std::vector<at::Tensor> copies;
    for (const auto& [name, tensor] : model->parameters())
      copies.push_back(tensor.detach().clone());
    return copies;
  }

  static void ExpectEqual(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
  }

  const TempDir dir;
  RunSettings run = SmallRun();
  LearnerConfig learner;
  ModelDtype dtype = ModelDtype::kFloat32;
  std::unique_ptr<Transformer> model, start;
  std::unique_ptr<Collective> group = MakeLocalCollective();
  FakeSource source{run};
  std::unique_ptr<Trainer> trainer;
  double ref_kl = 0;
};

TEST_F(AdapterTrainingTest, AStepMovesTheAdaptersAndNothingElse) {
  for (const auto type : {ModelDtype::kFloat32, ModelDtype::kBfloat16}) {
    dtype = type;
    Make();
    const auto before = Copies();
    Train(1, 3);
    const auto after = Copies();
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].scalar_type(), at::kFloat);
      EXPECT_FALSE(after[i].equal(before[i])) << model->parameters()[i].first;
    }
    const auto base = SmallModel(dtype);
    for (std::size_t u = 0; u < base->units().size(); ++u) {
      for (std::size_t i = 0; i < base->units()[u].parameters.size(); ++i)
        EXPECT_TRUE(
            base->units()[u].parameters[i].second.equal(model->units()[u].parameters[i].second));
    }
  }
}

// The bits of a run whose reference is another model.
TEST_F(AdapterTrainingTest, TheReferenceIsTheModelWithoutItsAdapters) {
  run.algorithm.kl_coef = 0.1;
  for (const std::int64_t epochs : {1, 2}) {
    for (const KlPlace place : {KlPlace::kLoss, KlPlace::kReward}) {
      run.batch.epochs = epochs;
      run.algorithm.kl_in = place;
      run.algorithm.kl_estimator = place == KlPlace::kLoss ? KlEstimator::kK3 : KlEstimator::kK1;
      Make(/*own_reference=*/true);
      Train(1, 3);
      const auto expected = Copies();
      const double expected_kl = ref_kl;
      EXPECT_NE(expected_kl, 0);
      Make();
      Train(1, 3);
      EXPECT_EQ(ref_kl, expected_kl);
      ExpectEqual(Copies(), expected);
    }
  }
}

// Of a run that starts from an adapter, the reference is the model with that adapter as it was.
TEST_F(AdapterTrainingTest, TheReferenceHasTheAdaptersOfTheStart) {
  Make();
  Train(1, 2);
  const std::string folder = JoinPath(dir.path(), "adapter");
  ASSERT_TRUE(SaveModelFolder(*model, "base", folder).ok());
  const auto trained = Copies();
  run.lora.adapter = folder;
  run.algorithm.kl_coef = 0.1;
  Make();
  ExpectEqual(Copies(), trained);
  const TokenBatch batch = FillerTokens();
  const auto logprobs = [&] { return batch.Run(*model, {}).output().logprobs_M.detach(); };
  const at::Tensor before = logprobs();
  Train(1, 3);
  EXPECT_FALSE(logprobs().equal(before));
  {
    const AdaptersOff off(*model);
    EXPECT_TRUE(logprobs().equal(before));
  }
  const auto found = Copies();
  const double found_kl = ref_kl;
  Make(/*own_reference=*/true);
  Train(1, 3);
  EXPECT_EQ(ref_kl, found_kl);
  ExpectEqual(Copies(), found);
}

TEST_F(AdapterTrainingTest, AResumedRunHasTheBitsOfOneThatWasNot) {
  Make();
  Train(1, 5);
  const auto expected = Copies();
  Make();
  Train(1, 2);
  const std::string folder = JoinPath(dir.path(), "checkpoint");
  CheckpointState state;
  state.step = 2;
  ASSERT_TRUE(LocalCheckpoints(folder).Save(state, model->units(), trainer->optimizer()).ok());
  Make();
  ASSERT_TRUE(LocalCheckpoints(folder).Load(model->units(), trainer->optimizer()).has_value());
  Train(3, 5);
  ExpectEqual(Copies(), expected);
}

// Two moments of each adapter, and nothing of the model.
TEST_F(AdapterTrainingTest, TheFrozenModelHasNoOptimizerState) {
  for (const auto type : {ModelDtype::kFloat32, ModelDtype::kBfloat16}) {
    dtype = type;
    Make();
    std::int64_t adapters = 0, state = 0;
    for (const ParameterUnit& unit : model->units()) {
      EXPECT_EQ(unit.trainable, unit.name.starts_with("adapters "));
      if (unit.trainable) adapters += unit.size();
    }
    for (const auto& [name, tensor] : trainer->optimizer().state()) {
      EXPECT_TRUE(name.starts_with("first.adapters ") || name.starts_with("second.adapters "));
      state += tensor.numel();
    }
    EXPECT_EQ(state, 2 * adapters);
  }
}

}  // namespace
}  // namespace buttress
