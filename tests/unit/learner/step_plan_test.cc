#include "learner/step_plan.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

PlannedGroup GroupOf(std::uint64_t id, const std::vector<double>& rewards) {
  PlannedGroup group;
  group.group_id = id;
  group.prompt_tokens = 3;
  for (const double reward : rewards) {
    group.outcomes.push_back(reward > 0 ? Outcome::kCorrect : Outcome::kWrong);
    group.lengths.push_back(4);
    group.total_lengths.push_back(5);
    group.truncated.push_back(false);
  }
  group.rewards = group.raw_rewards = rewards;
  return group;
}

class StepPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    batch.step = 5;
    batch.groups = {GroupOf(10, {1, 0}), GroupOf(11, {1, 1}), GroupOf(12, {0, 1})};
    batch.groups[0].oldest_version.step = 4;
    batch.groups[1].oldest_version.step = 2;
    batch.groups[2].oldest_version.step = 4;
    for (const PlannedGroup& group : batch.groups)
      batch.collapse.step.Add(ClassifyGroup(group.raw_rewards, group.outcomes));
    options.ranks = 2;
    options.micro_batch_tokens = 8;  // one completion each
  }

  BatchPlan batch;
  StepPlanOptions options;
  BatchSummary summary;
};

TEST_F(StepPlanTest, GivesEveryGroupOneReaderAndEveryCompletionWithAnAdvantageOneMicroBatch) {
  const auto plan = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->group_offsets, (std::vector<std::int32_t>{0, 2, 4, 6}));
  EXPECT_NE(plan->rank_of_group[0],
            plan->rank_of_group[2]);  // the two that are run share the ranks
  EXPECT_EQ(plan->micro_batch[2], -1);
  EXPECT_EQ(plan->micro_batch[3], -1);
  EXPECT_EQ(plan->rounds, 2);
  EXPECT_GE(plan->rank_of_group[1], 0);  // read for the statistics
  for (const double weight : plan->token_weights)
    EXPECT_DOUBLE_EQ(weight, 1.0 / 24);  // 6 completions of 4 trained tokens
  EXPECT_EQ(summary.groups_trained, 2);
  EXPECT_EQ(summary.generated_tokens, 30);
  EXPECT_EQ(summary.zero_advantage_tokens, 8);
  EXPECT_EQ(summary.age_max, 2);
  EXPECT_NEAR(summary.age_mean, 2.0 / 3, 1e-12);
  EXPECT_NEAR(summary.reward_mean, 4.0 / 6, 1e-12);
}

TEST_F(StepPlanTest, UnscorableCompletionsAreInNothing) {
  batch.groups[0] = GroupOf(10, {1, 0, 1});
  batch.groups[0].outcomes[2] = Outcome::kUnscorable;
  const auto plan = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->advantages[2], 0);
  EXPECT_EQ(plan->token_weights[2], 0);
  EXPECT_EQ(plan->micro_batch[2], -1);
  EXPECT_DOUBLE_EQ(plan->token_weights[0], 1.0 / 24);
  EXPECT_EQ(summary.unscorable, 1);
}

TEST_F(StepPlanTest, RewardsOfOneAndOfTwoPartsMayStandInOneBatchUnlessTheEstimatorReadsThem) {
  batch.groups[0].components = {1, 0};
  batch.groups[1].components = {1, 0.5, 1, 0};
  batch.groups[2].components = {0, 1};
  EXPECT_TRUE(MakeStepPlan(batch, options, {}, summary).ok());
  options.algorithm.advantage = Estimator::kGdpo;
  EXPECT_EQ(MakeStepPlan(batch, options, {}, summary).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(StepPlanTest, AGroupWithNothingScorableHasNoComponentsAndTrainsNothing) {
  batch.groups[0].components = {1, 0.5, 0, 0.25};
  batch.groups[2].components = {0, 0.5, 1, 0.25};
  batch.groups[1].outcomes = {Outcome::kUnscorable, Outcome::kUnscorable};
  batch.collapse.step = {};
  for (const PlannedGroup& group : batch.groups)
    batch.collapse.step.Add(ClassifyGroup(group.raw_rewards, group.outcomes));
  for (const Estimator advantage : {Estimator::kGrpo, Estimator::kGdpo}) {
    options.algorithm.advantage = advantage;
    const auto plan = MakeStepPlan(batch, options, {}, summary);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_EQ(plan->advantages[2], 0);
    EXPECT_EQ(plan->advantages[3], 0);
    EXPECT_NE(plan->advantages[0], 0);
  }
}

TEST_F(StepPlanTest, SurvivesTheBroadcastAndRefusesOtherBytes) {
  const auto plan = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(plan.ok());
  const std::string bytes = EncodeStepPlan(*plan);
  const auto decoded = DecodeStepPlan(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(*decoded == *plan);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeStepPlan(std::string_view(bytes).substr(0, size)).status().code(),
              StatusCode::kDataLoss);
  }
  EXPECT_FALSE(DecodeStepPlan(bytes + "x").ok());
}

TEST_F(StepPlanTest, TheGateGoesOnFromWhatItRemembers) {
  options.algorithm.advantage = Estimator::kAvspo;
  options.algorithm.avspo.mode = AvspoMode::kLadder;
  const GateState before{0.2, 0.5};  // ACR 1/3 is above, and J = 4/6 has risen
  ASSERT_TRUE(MakeStepPlan(batch, options, before, summary).ok());
  ASSERT_TRUE(summary.gate.has_value());
  EXPECT_TRUE(summary.gate->open);
  EXPECT_EQ(summary.gate->threshold, 0.2);
  EXPECT_EQ(summary.virtual_groups, 1);
  EXPECT_NEAR(*summary.next_gate.threshold, 0.2 + 0.01 * (1.0 / 3 - 0.2), 1e-15);
  EXPECT_NEAR(*summary.next_gate.reward_mean, 4.0 / 6, 1e-15);
}

TEST_F(StepPlanTest, TokensThatLearnFromTheirEntropyAreRun) {
  options.algorithm.advantage = Estimator::kRlZvp;
  const auto plan = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->advantages[2], 0);
  EXPECT_EQ(plan->entropy_scale, (std::vector<double>{0, 0, 0.1, 0.1, 0, 0}));
  EXPECT_GE(plan->micro_batch[2], 0);
  EXPECT_EQ(summary.zero_advantage_tokens, 0);
  const auto decoded = DecodeStepPlan(EncodeStepPlan(*plan));
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(*decoded == *plan);
}

TEST_F(StepPlanTest, OverlongFilterLeavesCutCompletionsOutOfLossAndDenominatorsNotOutOfTheirGroup) {
  options.algorithm.overlong.filter = true;
  batch.groups[0].truncated = {false, true};
  const auto plan = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->lengths[1], 4);  // as it is read
  EXPECT_EQ(plan->micro_batch[1], -1);
  EXPECT_EQ(plan->token_weights[1], 0);
  EXPECT_GE(plan->micro_batch[0], 0);
  EXPECT_GT(plan->advantages[0], 0);  // against the reward of the one that is left out
  EXPECT_DOUBLE_EQ(plan->token_weights[0], 1.0 / 20);
  EXPECT_EQ(summary.overlong_filtered, 1);
  options.algorithm.overlong.filter = false;
  EXPECT_GE(MakeStepPlan(batch, options, {}, summary)->micro_batch[1], 0);
  EXPECT_EQ(summary.overlong_filtered, 0);
}

TEST_F(StepPlanTest, SoftPunishmentChangesRewardsAndNotCollapse) {
  options.algorithm.advantage = Estimator::kDrGrpo;
  options.algorithm.overlong.cache = 4;
  options.overlong_length = 6;
  batch.groups[1].total_lengths = {6, 4};  // all correct; the whole punishment, and half of it
  const auto plan = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_NEAR(plan->advantages[2], -0.25, 1e-12);
  EXPECT_NEAR(plan->advantages[3], 0.25, 1e-12);
  EXPECT_EQ(summary.collapse.all_correct, 1);  // raw rewards are equal all the same
  EXPECT_GE(plan->micro_batch[2], 0);
}

TEST_F(StepPlanTest, AMaskedGroupIsInNoLossAndNoDenominatorButInWhatIsReported) {
  options.algorithm.kl_coef = 0.1;  // would run it otherwise
  options.mask_zero_variance = true;
  batch.collapse.step.Add(CollapseClass::kAllWrong);  // drawn for the step, and replaced
  const auto plan = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  for (const std::size_t row : {2, 3}) {
    EXPECT_EQ(plan->advantages[row], 0);
    EXPECT_EQ(plan->token_weights[row], 0);
    EXPECT_EQ(plan->micro_batch[row], -1);
    EXPECT_EQ(plan->lengths[row], 4);  // it is read for the statistics
  }
  EXPECT_DOUBLE_EQ(plan->token_weights[0], 1.0 / 16);  // 4 completions of 4 trained tokens
  EXPECT_EQ(summary.groups_masked, 1);
  EXPECT_EQ(summary.groups_replaced, 1);
  EXPECT_EQ(summary.groups_trained, 2);
  EXPECT_EQ(summary.tokens, 16);
  EXPECT_EQ(summary.collapse.all_correct, 1);  // raw
  EXPECT_NEAR(summary.reward_mean, 4.0 / 6, 1e-12);
}

// An estimator that looks at the whole batch sees the groups that train, as DAPO's filter comes
// before its advantages.
TEST_F(StepPlanTest, AMaskedGroupIsInNoStatisticOfTheEstimator) {
  options.algorithm.advantage = Estimator::kReinforcePp;
  options.mask_zero_variance = true;
  const auto masked = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(masked.ok()) << masked.status().ToString();
  batch.groups.erase(batch.groups.begin() + 1);
  batch.collapse.step = {.groups = 2, .mixed = 2};
  const auto without = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ((std::vector<double>{masked->advantages[0], masked->advantages[1],
                                 masked->advantages[4], masked->advantages[5]}),
            without->advantages);
}

TEST_F(StepPlanTest, AStepOfMaskedGroupsAloneHasNothingToRun) {
  batch.groups = {GroupOf(10, {1, 1}), GroupOf(11, {0, 0})};
  batch.collapse.step = {.groups = 2, .all_correct = 1, .all_wrong = 1};
  options.mask_zero_variance = true;
  const auto plan = MakeStepPlan(batch, options, {}, summary);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->rounds, 0);
  EXPECT_EQ(summary.tokens, 0);
}

TEST_F(StepPlanTest, ACountThatContradictsTheRewardsIsRefused) {
  batch.collapse.step.all_correct += 1;
  EXPECT_EQ(MakeStepPlan(batch, options, {}, summary).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace buttress
