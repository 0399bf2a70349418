// Steps with several updates: what TRL and verl make of the same batch (tests/golden/updates.json),
// and what holds for any batch.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "learner/trainer.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "tests/unit/learner/fake_source.h"
#include "tests/unit/learner/local_checkpoints.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::int64_t kGoldenBytesMax = std::int64_t{1} << 20;

json ReadUpdates() {
  const auto text = ReadFile(std::string(BUTTRESS_GOLDEN_DIR) + "/updates.json", kGoldenBytesMax);
  return text.ok() ? json::parse(*text) : json();
}

// The groups of the golden file, as the batch of every step.
class RecordedSource : public BatchSource {
 public:
  explicit RecordedSource(const json& golden) {
    for (const json& of : golden["groups"]) {
      v1::Group& group = groups_.emplace_back(
          NewGroup(groups_.size() + 1, of["prompt"].get<std::vector<std::int32_t>>()));
      group.mutable_head()->clear_versions();
      for (std::size_t i = 0; i < of["completions"].size(); ++i) {
        const double reward = of["rewards"][i].get<double>();
        AppendCompletion(group, of["completions"][i].get<std::vector<std::int32_t>>(),
                         reward > 0 ? Outcome::kCorrect : Outcome::kWrong, reward);
      }
    }
  }

  Result<PlanReply> Plan(std::int64_t step, std::chrono::milliseconds) override {
    PlanReply reply;
    reply.plan.emplace();
    reply.plan->step = static_cast<std::uint64_t>(step);
    for (const v1::Group& group : groups_) AppendToPlan(group, *reply.plan);
    return reply;
  }

  Result<std::vector<v1::Group>> Fetch(std::int64_t, std::span<const std::uint64_t> ids) override {
    std::vector<v1::Group> fetched;
    for (const std::uint64_t id : ids) fetched.push_back(groups_.at(id - 1));
    return fetched;
  }

  Status Commit(std::int64_t) override { return OkStatus(); }

 private:
  std::vector<v1::Group> groups_;
};

RunSettings RunOf(const json& golden, const json& peer) {
  RunSettings run;
  const bool of_trl = peer["peer"] == "trl";
  run.batch.prompts = 4;
  run.sampling.group_size = 4;
  run.sampling.max_tokens = golden["max_tokens"].get<std::int64_t>();
  run.batch.updates = of_trl ? 4 : 2;
  run.batch.mini_batch = of_trl ? MiniBatchOf::kCompletions : MiniBatchOf::kPrompts;
  run.batch.epochs = peer["epochs"].get<std::int64_t>();
  run.optim.lr = golden["lr"].get<double>();
  run.optim.zero_gradient = ZeroGradient::kUpdate;  // as torch does
  run.algorithm.eps = golden["eps"].get<double>();
  run.algorithm.clip_low = run.algorithm.clip_high = golden["clip"].get<double>();
  run.algorithm.old_policy = OldPolicy::kLearner;
  const std::map<std::string, Aggregation> aggregations = {
      {"grpo", Aggregation::kSeqMeanTokenMean},
      {"dr_grpo", Aggregation::kSeqMeanTokenSumNorm},
      {"token-mean", Aggregation::kTokenMean},
      {"seq-mean-token-mean", Aggregation::kSeqMeanTokenMean}};
  run.algorithm.aggregation = aggregations.at(peer["loss_type"].get<std::string>());
  return run;
}

// Sum of the clip fractions, over all tokens of all updates.
double ClipFraction(const json& golden, const json& peer) {
  const bool of_trl = peer["peer"] == "trl";
  const json& drawn = golden[of_trl ? "completions_in_4" : "prompts_in_2"];
  std::vector<double> tokens(of_trl ? 4 : 2, 0.0);
  std::size_t row = 0;
  for (const json& group : golden["groups"]) {
    for (const json& completion : group["completions"])
      tokens.at(drawn[row++].get<std::size_t>()) += static_cast<double>(completion.size());
  }
  double clipped = 0, all = 0;
  for (std::size_t n = 0; n < peer["updates"].size(); ++n) {
    const json& update = peer["updates"][n];
    const double own = tokens[n % tokens.size()];
    for (std::size_t i = 1; i < update.size(); ++i) clipped += update[i].get<double>() * own;
    all += own;
  }
  return clipped / all;
}

double MeanLoss(const json& peer) {
  double sum = 0;
  for (const json& update : peer["updates"]) sum += update[0].get<double>();
  return sum / static_cast<double>(peer["updates"].size());
}

TEST(UpdatesTest, AStepEndsWithTheWeightsOfTrlAndVerl) {
  at::set_num_threads(1);
  const json golden = ReadUpdates();
  ASSERT_FALSE(golden.is_null());
  for (const json& peer : golden["runs"]) {
    SCOPED_TRACE(peer["peer"].get<std::string>() + " " + peer["loss_type"].get<std::string>() +
                 " epochs " + peer["epochs"].dump());
    auto model = Transformer::Load(std::string(BUTTRESS_GOLDEN_DIR) + "/policy/qwen2_tiny",
                                   ModelDtype::kFloat32, {});
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    std::map<std::string, at::Tensor> before;
    for (const auto& [name, tensor] : (*model)->parameters())
      before[name] = tensor.detach().clone();
    RecordedSource source(golden);
    const auto group = MakeLocalCollective();
    Trainer trainer({RunOf(golden, peer), {}, ""}, **model, nullptr, *group, *group, source);
    const auto state = trainer.Step(1, [] { return false; });
    ASSERT_TRUE(state.ok()) << state.status().ToString();
    EXPECT_EQ(state->measured.updates, static_cast<double>(peer["updates"].size()));
    EXPECT_NEAR(state->measured.loss, MeanLoss(peer), 2e-5);
    EXPECT_NEAR(state->measured.clip_low + state->measured.clip_high, ClipFraction(golden, peer),
                1e-6);
    EXPECT_GT(state->measured.clip_low + state->measured.clip_high, 0.01);
    for (const auto& [name, tensor] : (*model)->parameters()) {
      SCOPED_TRACE(name);
      // Softmax ignores what is added to all keys, so this gradient is rounding alone.
      if (name.ends_with("k_proj.bias")) continue;
      const at::Tensor change = tensor.detach() - before[name];
      const json& expected = peer["changes"][name];
      EXPECT_NEAR(change.norm().item<double>() / expected[0].get<double>(), 1, 1e-3);
      for (std::int64_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(change.flatten()[i].item<double>(), expected[1][i].get<double>(),
                    0.02 * golden["lr"].get<double>());
      }
    }
  }
}

class SeveralUpdatesTest : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    run.batch.updates = 3;
    run.batch.epochs = 2;
    run.algorithm.old_policy = OldPolicy::kLearner;
  }

  void Make() {
    trainer = std::make_unique<Trainer>(TrainerOptions{run, learner, ""}, *model, nullptr, *group,
                                        *group, source);
  }

  StepMeasurements Step(std::int64_t step) {
    auto state = trainer->Step(step, [] { return false; });
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    return state.ok() ? state->measured : StepMeasurements();
  }

  at::Tensor Weights() const {
    std::vector<at::Tensor> flat;
    for (const auto& [name, tensor] : model->parameters())
      flat.push_back(tensor.detach().flatten());
    return at::cat(flat);
  }

  RunSettings run = SmallRun();
  LearnerConfig learner;
  std::unique_ptr<Transformer> model = SmallModel();
  std::unique_ptr<Collective> group = MakeLocalCollective();
  FakeSource source{run};
  std::unique_ptr<Trainer> trainer;
};

TEST_F(SeveralUpdatesTest, CommitOnceAndClipWhatTheFirstUpdateMoved) {
  Make();
  const StepMeasurements step = Step(1);
  EXPECT_EQ(step.updates, 6);
  EXPECT_EQ(trainer->optimizer().steps(), 6);
  EXPECT_EQ(source.committed, std::vector<std::int64_t>{1});
  EXPECT_GT(step.clip_low + step.clip_high, 0);
  EXPECT_GT(step.old_kl, 0);
  EXPECT_EQ(step.updates_stopped, 0);
}

TEST_F(SeveralUpdatesTest, DoNotDependOnMicroBatches) {
  run.optim.lr = 1e-3;
  for (const MiniBatchOf of : {MiniBatchOf::kPrompts, MiniBatchOf::kCompletions}) {
    run.batch.mini_batch = of;
    learner.micro_batch_tokens = 16384;
    model = SmallModel();
    Make();
    const StepMeasurements whole = Step(1);
    const at::Tensor one = Weights().clone();
    learner.micro_batch_tokens = 20;
    model = SmallModel();
    Make();
    const StepMeasurements split = Step(1);
    EXPECT_NEAR(split.loss, whole.loss, 1e-5);
    EXPECT_EQ(split.clip_low, whole.clip_low);
    EXPECT_LT((one - Weights()).abs().max().item<double>(), 1e-4);
  }
}

TEST_F(SeveralUpdatesTest, DivideByThePolicyBeforeTheFirst) {
  run.optim.lr = 0;
  Make();
  EXPECT_LT(Step(1).old_kl, 1e-10);
  run.optim.lr = 1e-2;
  Make();
  EXPECT_GT(Step(1).old_kl, 1e-6);
  run.batch.updates = run.batch.epochs = 1;
  Make();
  EXPECT_EQ(Step(1).old_kl, 0);
}

TEST_F(SeveralUpdatesTest, StopWhereThePolicyHasMovedTooFar) {
  run.batch.kl_stop = 1e-9;
  Make();
  const StepMeasurements far = Step(1);
  EXPECT_EQ(far.updates, 1);
  EXPECT_EQ(far.updates_stopped, 5);
  const at::Tensor stopped = Weights().clone();
  run.batch.kl_stop = 10;
  model = SmallModel();
  Make();
  EXPECT_EQ(Step(1).updates_stopped, 0);
  EXPECT_GT((stopped - Weights()).abs().max().item<double>(), 1e-4);
}

TEST_F(SeveralUpdatesTest, FollowTheScheduleUpdateByUpdate) {
  run.optim.warmup_steps = 2;
  Make();
  EXPECT_DOUBLE_EQ(Step(1).lr, run.optim.lr / 2);
  EXPECT_DOUBLE_EQ(Step(2).lr, run.optim.lr);
}

TEST_F(SeveralUpdatesTest, ResumeBitForBit) {
  const std::string folder =
      (std::filesystem::path(testing::TempDir()) / "updates_test_resume").string();
  std::filesystem::remove_all(folder);
  Make();
  Step(1);
  CheckpointState state;
  state.step = 1;
  ASSERT_TRUE(LocalCheckpoints(folder).Save(state, model->units(), trainer->optimizer()).ok());
  Step(2);
  const at::Tensor straight = Weights().clone();
  model = SmallModel();
  Make();
  const auto loaded = LocalCheckpoints(folder).Load(model->units(), trainer->optimizer());
  ASSERT_TRUE(loaded.has_value());
  Step(2);
  EXPECT_TRUE(at::equal(straight, Weights()));
}

}  // namespace
}  // namespace buttress
