#include "learner/trainer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "lib/config/load.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/learner/fake_source.h"
#include "tests/unit/learner/local_checkpoints.h"

namespace buttress {
namespace {

bool Never() { return false; }

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  void Make() {
    TrainerOptions options{run, learner,
                           (std::filesystem::path(testing::TempDir()) / "bad_batch.json").string()};
    std::filesystem::remove(options.bad_batch_path);
    bad_batch = options.bad_batch_path;
    trainer = std::make_unique<Trainer>(options, *model, reference.get(), *group, *group, source);
  }

  StepState Step(std::int64_t step) {
    auto state = trainer->Step(step, Never);
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    return state.ok() ? *std::move(state) : StepState();
  }

  std::vector<at::Tensor> Parameters() const {
    std::vector<at::Tensor> copies;
    for (const auto& [name, tensor] : model->parameters())
      copies.push_back(tensor.detach().clone());
    return copies;
  }

  static double LargestDifference(const std::vector<at::Tensor>& a,
                                  const std::vector<at::Tensor>& b) {
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
    return largest;
  }

  RunSettings run = SmallRun();
  LearnerConfig learner;
  std::unique_ptr<Transformer> model = SmallModel();
  std::unique_ptr<Transformer> reference;
  std::unique_ptr<Collective> group = MakeLocalCollective();
  FakeSource source{run};
  std::unique_ptr<Trainer> trainer;
  std::string bad_batch;
};

TEST_F(TrainerTest, APlanWithDamagedGroupsIsAskedForAgainButNotForEver) {
  Make();
  source.damaged_plans = 2;
  const StepState report = Step(1);
  EXPECT_EQ(report.end, StepEnd::kTrained);
  EXPECT_EQ(source.plans, 3);
  EXPECT_EQ(report.summary.plan_groups, 6);
  EXPECT_EQ(report.groups.size(), 6);
  source.damaged_plans = 100;
  EXPECT_EQ(trainer->Step(2, Never).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(source.committed, std::vector<std::int64_t>{1});
}

TEST_F(TrainerTest, AStepMovesTheWeightsAndCommits) {
  Make();
  const auto before = Parameters();
  const StepState report = Step(1);
  EXPECT_EQ(report.end, StepEnd::kTrained);
  EXPECT_FALSE(report.measured.skipped);
  EXPECT_GT(report.measured.grad_norm, 0);
  EXPECT_GT(LargestDifference(before, Parameters()), 1e-4);
  EXPECT_EQ(source.committed, std::vector<std::int64_t>{1});
  EXPECT_EQ(report.summary.groups_trained, 4);  // 6 groups, two of them constant
  EXPECT_DOUBLE_EQ(report.summary.acr_all_correct, 1.0 / 6);
  EXPECT_DOUBLE_EQ(report.summary.acr_all_wrong, 1.0 / 6);
  EXPECT_EQ(report.summary.unscorable, 1);
  EXPECT_LT(report.measured.trained_tokens, report.measured.tokens);
  EXPECT_NEAR(report.measured.entropy, std::log(13.0) + 0.05,
              0.02);  // recorded log-probs are uniform around it
}

// With eps far above the gradients, an update is lr * gradient / eps.
TEST_F(TrainerTest, TheGradientNormIsCutToTheBoundBeforeTheUpdate) {
  run.optim.eps = 1e3;
  run.optim.lr = 1e3;
  const auto moved = [this](double clip_grad) {
    run.optim.clip_grad = clip_grad;
    model = SmallModel();
    Make();
    const auto before = Parameters();
    const double norm = Step(1).measured.grad_norm;
    const auto after = Parameters();
    double squares = 0;
    for (std::size_t i = 0; i < before.size(); ++i)
      squares += (after[i] - before[i]).square().sum().item<double>();
    return std::pair(norm, std::sqrt(squares));
  };
  const auto [norm, whole] = moved(0);
  EXPECT_NEAR(whole, norm, 1e-3 * norm);
  const auto [same, half] = moved(norm / 2);
  EXPECT_NEAR(same, norm, 1e-6 * norm);  // what is reported is the gradient as it was
  EXPECT_NEAR(half, norm / 2, 1e-3 * norm);
  EXPECT_NEAR(moved(2 * norm).second, whole, 1e-6 * norm);
}

// Everything that a loss of the table needs to be chosen.
AlgorithmConfig WithLoss(const PolicyLossInfo& loss) {
  AlgorithmConfig algorithm;
  algorithm.loss = loss.loss;
  algorithm.clip_cov.share = 0.2;
  algorithm.clip_cov.low = 0.01;
  if (loss.loss == PolicyLoss::kDecoupledPpo) {
    algorithm.old_policy = OldPolicy::kLearner;
    algorithm.correction.mode = CorrectionMode::kMis;
  }
  return algorithm;
}

TEST_F(TrainerTest, EveryLossTrainsAndDoesNotDependOnMicroBatches) {
  for (const PolicyLossInfo& loss : PolicyLosses()) {
    SCOPED_TRACE(loss.name());
    run.algorithm = WithLoss(loss);
    ASSERT_TRUE(ValidateAlgorithmConfig(run.algorithm).ok());
    model = SmallModel();
    learner.micro_batch_tokens = 16384;
    Make();
    const auto before = Parameters();
    const StepState whole = Step(1);
    EXPECT_GT(whole.measured.grad_norm, 0);
    EXPECT_GT(LargestDifference(before, Parameters()), 1e-4);
    EXPECT_EQ(whole.measured.marked > 0, MarksTokens(loss.loss));
    EXPECT_GT(whole.measured.importance_ess, 0.5);
    model = SmallModel();
    learner.micro_batch_tokens = 20;
    Make();
    const StepState split = Step(1);
    EXPECT_NEAR(split.measured.grad_norm, whole.measured.grad_norm,
                2e-6 * whole.measured.grad_norm);
    EXPECT_NEAR(split.measured.loss, whole.measured.loss, 1e-6);
    EXPECT_EQ(split.measured.marked, whole.measured.marked);
    EXPECT_EQ(split.measured.importance_p50, whole.measured.importance_p50);
  }
}

TEST_F(TrainerTest, OldPolicyLearnerHasRatioOneAndCorrectionsWeightTheGapToTheSampler) {
  run.algorithm.old_policy = OldPolicy::kLearner;
  run.algorithm.clip_low = run.algorithm.clip_high = 1e-6;
  Make();
  const StepState plain = Step(1);
  EXPECT_EQ(plain.measured.clip_low + plain.measured.clip_high, 0);
  EXPECT_EQ(plain.measured.correction_mean, 0);
  EXPECT_EQ(plain.measured.correction_ess, 0);
  EXPECT_EQ(plain.measured.correction_truncated, 0);
  EXPECT_EQ(plain.measured.correction_masked, 0);
  EXPECT_GT(plain.measured.kl, 0);  // of the sampler all the same
  run.algorithm.correction.mode = CorrectionMode::kIcePop;
  run.algorithm.correction.floor = 0.9;
  model = SmallModel();
  Make();
  const StepState corrected = Step(1);
  EXPECT_GT(corrected.measured.correction_masked, 0);
  EXPECT_GT(corrected.measured.correction_mean, 0);
  EXPECT_NE(corrected.measured.grad_norm, plain.measured.grad_norm);
}

TEST_F(TrainerTest, KlInTheRewardGivesConstantGroupsAdvantagesAndLeavesCollapseAlone) {
  run.algorithm.kl_coef = 0.1;
  run.algorithm.kl_in = KlPlace::kReward;
  run.algorithm.kl_estimator = KlEstimator::kK1;
  reference = SmallModel();
  Make();
  const StepState report = Step(1);
  EXPECT_EQ(report.summary.groups_trained, 6);
  EXPECT_EQ(report.summary.zero_advantage_tokens, 0);
  EXPECT_DOUBLE_EQ(report.summary.acr_all_correct, 1.0 / 6);
  EXPECT_EQ(report.measured.kl_loss, 0);
  EXPECT_NEAR(report.measured.ref_kl, 0, 1e-6);  // of the policy; the sampler is another
  run.algorithm = {};
  reference = nullptr;
  model = SmallModel();
  Make();
  EXPECT_NE(Step(1).summary.shaped_reward_mean, report.summary.shaped_reward_mean);
}

TEST_F(TrainerTest, TheEntropyCoefficientFollowsTheEntropy) {
  run.algorithm.adaptive_entropy.target = 10;  // above ln 13
  run.algorithm.adaptive_entropy.step = 0.25;
  Make();
  const StepState first = Step(1);
  EXPECT_EQ(first.measured.entropy_coef, 0);
  EXPECT_EQ(first.measured.entropy_bonus, 0);
  const StepState second = Step(2);
  EXPECT_EQ(second.measured.entropy_coef, 0.25);
  EXPECT_GT(second.measured.entropy_bonus, 0);
  EXPECT_EQ(trainer->state().entropy.coef, 0.5);
  EXPECT_EQ(trainer->state().entropy.last_entropy, second.measured.entropy_exact);
  model = SmallModel();
  Make();
  trainer->Resume({.skipped_in_a_row = 0, .gate = {}, .entropy = {0.75, 1.0}});
  EXPECT_EQ(Step(1).measured.entropy_coef, 0.75);
}

TEST_F(TrainerTest, OverlongFilterLeavesTruncatedCompletionsOutOfTheLoss) {
  source.cut_completion = 3;
  Make();
  const StepState all = Step(1);
  EXPECT_EQ(all.summary.overlong_filtered, 0);
  run.algorithm.overlong.filter = true;
  model = SmallModel();
  Make();
  const StepState filtered = Step(1);
  EXPECT_EQ(filtered.summary.overlong_filtered, 6);
  EXPECT_LT(filtered.summary.tokens, all.summary.tokens);
  EXPECT_LT(filtered.measured.trained_tokens, all.measured.trained_tokens);
  EXPECT_EQ(filtered.summary.shaped_reward_mean, all.summary.shaped_reward_mean);
}

TEST_F(TrainerTest, ABatchOfConstantGroupsRunsNothingButCountsAsAStep) {
  source.all_constant = true;
  Make();
  const auto before = Parameters();
  const StepState report = Step(1);
  EXPECT_EQ(report.measured.trained_tokens, 0);
  EXPECT_EQ(report.summary.groups_trained, 0);
  EXPECT_GT(report.summary.tokens, 0);
  EXPECT_EQ(report.measured.grad_norm, 0);
  EXPECT_EQ(LargestDifference(before, Parameters()), 0);
  EXPECT_EQ(report.measured.zero_gradient, 1);
  EXPECT_EQ(trainer->optimizer().steps(), 0);
  EXPECT_EQ(source.committed, std::vector<std::int64_t>{1});
}

TEST_F(TrainerTest, MomentumMovesWeightsWithoutAGradientOnlyWhereItIsChosen) {
  for (const auto choice : {ZeroGradient::kSkip, ZeroGradient::kUpdate}) {
    run.optim.zero_gradient = choice;
    model = SmallModel();
    source.all_constant = false;
    Make();
    EXPECT_EQ(Step(1).measured.zero_gradient, 0);  // warms the moments
    source.all_constant = true;
    const auto before = Parameters();
    EXPECT_EQ(Step(2).measured.zero_gradient, 1);
    const bool updates = choice == ZeroGradient::kUpdate;
    EXPECT_EQ(LargestDifference(before, Parameters()) > 0, updates) << ChoiceName(choice);
    EXPECT_EQ(trainer->optimizer().steps(), updates ? 2 : 1);
  }
}

TEST_F(TrainerTest, RlZvpTrainsConstantGroupsByTheEntropyOfTheirTokens) {
  source.all_constant = true;
  run.algorithm.advantage = Estimator::kRlZvp;
  Make();
  const auto before = Parameters();
  const StepState report = Step(1);
  EXPECT_EQ(report.measured.trained_tokens, report.measured.tokens);
  EXPECT_GT(report.measured.grad_norm, 0);
  EXPECT_GT(LargestDifference(before, Parameters()), 1e-4);
}

TEST_F(TrainerTest, TheGateKeepsItsStateBetweenSteps) {
  run.algorithm.advantage = Estimator::kAvspo;
  run.algorithm.avspo.mode = AvspoMode::kLadder;
  Make();
  trainer->Resume(
      {.skipped_in_a_row = 0, .gate = {0.25, -1.0}, .entropy = {}});  // any reward is better
  const StepState report = Step(1);
  EXPECT_EQ(report.summary.gate_threshold, 0.25);
  EXPECT_EQ(trainer->state().gate, report.summary.next_gate);
  EXPECT_GT(*trainer->state().gate.threshold, 0.25);  // towards the ACR of 1/3
  EXPECT_EQ(Step(2).summary.gate_threshold, *report.summary.next_gate.threshold);
}

TEST_F(TrainerTest, AnEntropyBonusMakesConstantGroupsRun) {
  run.algorithm.entropy_coef = 0.01;
  Make();
  const StepState report = Step(1);
  EXPECT_EQ(report.summary.groups_trained, 6);
  EXPECT_EQ(report.measured.trained_tokens, report.measured.tokens);
  EXPECT_GT(report.measured.entropy_bonus, 0);
}

TEST_F(TrainerTest, KlAgainstTheStartModelStartsAtZeroAndGrows) {
  run.algorithm.kl_coef = 0.1;
  reference = SmallModel();
  Make();
  const StepState first = Step(1);
  EXPECT_NEAR(first.measured.ref_kl, 0, 1e-7);  // of rounding
  EXPECT_EQ(first.summary.groups_trained, 6);   // the KL loss gives constant groups a gradient too
  EXPECT_GT(Step(2).measured.ref_kl, 0);
}

TEST_F(TrainerTest, TheDriftFromTheStartModelIsMeasuredWhenItIsDueAndChangesNothing) {
  Make();
  EXPECT_TRUE(std::isnan(Step(1).measured.start_kl));  // off
  for (std::int64_t step = 2; step <= 6; ++step) Step(step);
  const auto without = Parameters();

  const TempDir folder;
  model = SmallModel();
  run.model.path = Saved(*model, folder.path());
  learner.start_kl = {.every = 4, .tokens = 30};
  Make();
  std::vector<double> measured;
  for (std::int64_t step = 1; step <= 6; ++step) measured.push_back(Step(step).measured.start_kl);
  EXPECT_EQ(LargestDifference(without, Parameters()), 0);
  EXPECT_GT(measured[0], 0);            // the first step after a start
  EXPECT_GT(measured[3], measured[0]);  // step 4
  for (const std::size_t i : {1, 2, 4, 5}) EXPECT_TRUE(std::isnan(measured[i])) << i;

  run.model.path = "/nowhere";
  Make();
  EXPECT_TRUE(std::isnan(Step(7).measured.start_kl));  // the step continues
}

TEST_F(TrainerTest, ResumingFromACheckpointGivesTheSameWeightsBitForBit) {
  using enum OptimPrecision;
  for (const auto& [dtype, precision] :
       {std::pair(ModelDtype::kFloat32, kFp32Master), std::pair(ModelDtype::kBfloat16, kFp32Master),
        std::pair(ModelDtype::kBfloat16, kStochastic)}) {
    run.optim.precision = precision;
    run.optim.lr = 1e-4;  // most updates are smaller than a step of bfloat16
    model = SmallModel(dtype);
    Make();
    for (std::int64_t step = 1; step <= 6; ++step) Step(step);
    const auto straight = Parameters();

    const std::string folder =
        (std::filesystem::path(testing::TempDir()) / "trainer_test_resume").string();
    std::filesystem::remove_all(folder);
    model = SmallModel(dtype);
    Make();
    for (std::int64_t step = 1; step <= 3; ++step) Step(step);
    CheckpointState state;
    state.step = 3;
    ASSERT_TRUE(LocalCheckpoints(folder).Save(state, model->units(), trainer->optimizer()).ok());
    for (std::int64_t step = 4; step <= 5; ++step) Step(step);  // lost

    model = SmallModel(dtype);
    Make();
    const auto loaded = LocalCheckpoints(folder).Load(model->units(), trainer->optimizer());
    ASSERT_TRUE(loaded.has_value());
    for (std::int64_t step = 4; step <= 6; ++step) Step(step);
    EXPECT_EQ(LargestDifference(straight, Parameters()), 0)
        << ChoiceName(dtype) << " " << ChoiceName(precision);
  }
}

TEST_F(TrainerTest, DenominatorsCountTheTokensOfGroupsThatAreNotRun) {
  // token_mean: with all groups run by a vanishing bonus, the policy loss is the same number.
  Make();
  const double skipped_constant = Step(1).measured.policy_loss;
  model = SmallModel();
  run.algorithm.entropy_coef = 1e-30;
  Make();
  EXPECT_NEAR(Step(1).measured.policy_loss, skipped_constant, 1e-7);
}

TEST_F(TrainerTest, ANonFiniteGradientSkipsTheUpdateAndFiveSuchStepsInARowFail) {
  run.batch.updates = 3;
  run.batch.epochs = 2;
  Make();
  {
    const at::NoGradGuard no_grad;
    at::Tensor(model->parameters().back().second).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  for (std::int64_t step = 1; step < Trainer::kMaxSkippedInARow; ++step) {
    const StepState report = Step(step);
    EXPECT_GE(report.measured.skipped, 2);
    EXPECT_EQ(trainer->state().skipped_in_a_row, step);
  }
  EXPECT_EQ(trainer->optimizer().steps(), 0);
  EXPECT_EQ(source.committed.size(), 4u);
  const auto last = trainer->Step(Trainer::kMaxSkippedInARow, Never);
  EXPECT_EQ(last.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(last.status().message().find("no gradient of 5 steps"), std::string::npos)
      << last.status().message();
  EXPECT_TRUE(std::filesystem::exists(bad_batch));
}

TEST_F(TrainerTest, AnUpdateThatMakesWeightsInfiniteNamesTheFirstAndIsNotCommitted) {
  run.optim.lr = 1e39;
  Make();
  const auto state = trainer->Step(1, Never);
  EXPECT_EQ(state.status().code(), StatusCode::kDataLoss);
  const std::string& why = state.status().message();
  EXPECT_NE(why.find("step 1: an update has made weights that are not finite: model."),
            std::string::npos)
      << why;
  EXPECT_NE(why.find("lower run.optim.lr"), std::string::npos);
  EXPECT_TRUE(source.committed.empty());
}

TEST_F(TrainerTest, AFiniteGradientResetsTheCountOfSkippedSteps) {
  Make();
  trainer->Resume({.skipped_in_a_row = 4, .gate = {}, .entropy = {}});
  Step(1);
  EXPECT_EQ(trainer->state().skipped_in_a_row, 0);
}

TEST_F(TrainerTest, PollsUntilAPlanIsReady) {
  source.waits_left = 3;
  Make();
  EXPECT_EQ(Step(1).end, StepEnd::kTrained);
  EXPECT_EQ(source.waits_left, 0);
}

TEST_F(TrainerTest, AWaitEndsWithTheErrorOfItsCall) {
  source.waits_left = 3;
  Make();
  trainer->CallWhileWaiting([&](double seconds) {
    EXPECT_GE(seconds, 0);
    return source.waits_left > 1 ? OkStatus() : Unavailable("damaged");
  });
  EXPECT_EQ(trainer->Step(1, [] { return false; }).status().message(), "step 1: damaged");
  EXPECT_EQ(source.waits_left, 1);
}

TEST_F(TrainerTest, AnnouncesEveryChangeOfTheParametersBeforeIt) {
  Make();
  const at::Tensor embedding_VD = model->weights().embedding_VD;
  const at::Tensor before_VD = embedding_VD.detach().clone();
  std::int64_t calls = 0;
  trainer->CallBeforeUpdates([&] {
    ++calls;
    EXPECT_TRUE(at::equal(embedding_VD, before_VD));
    return OkStatus();
  });
  Step(1);
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(at::equal(embedding_VD, before_VD));
}

TEST_F(TrainerTest, AStopRequestEndsTheStepBeforeItBegins) {
  Make();
  const auto report = trainer->Step(1, [] { return true; });
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->end, StepEnd::kStopped);
  EXPECT_TRUE(source.committed.empty());
}

TEST_F(TrainerTest, AFinishedRunHasNoFurtherStep) {
  source.finished = true;
  Make();
  EXPECT_EQ(Step(1).end, StepEnd::kFinished);
}

TEST_F(TrainerTest, AFetchedGroupThatDiffersFromThePlanIsRejected) {
  const std::function<void(v1::GroupHead&)> changes[] = {
      [](v1::GroupHead& head) { head.set_trained_lengths(1, head.trained_lengths(1) + 1); },
      [](v1::GroupHead& head) { head.set_rewards(1, 1 - head.rewards(1)); },
      [](v1::GroupHead& head) { head.add_outcomes(v1::OUTCOME_WRONG); },
      [](v1::GroupHead& head) { head.set_group_id(head.group_id() + 1); }};
  for (const auto& change : changes) {
    source.change = [&](std::vector<v1::Group>& groups) { change(*groups[3].mutable_head()); };
    Make();
    EXPECT_EQ(trainer->Step(1, Never).status().code(), StatusCode::kDataLoss);
  }
}

TEST_F(TrainerTest, ATokenOutsideTheVocabularyReturnsAnError) {
  source.change = [](std::vector<v1::Group>& groups) {
    for (v1::Group& g : groups) g.set_prompt_token_ids(0, 1000000);
  };
  Make();
  EXPECT_EQ(trainer->Step(1, Never).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace buttress
