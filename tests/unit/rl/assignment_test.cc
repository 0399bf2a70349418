#include "lib/rl/assignment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lib/rl/collapse/acr.h"
#include "tests/support/make_head.h"

namespace buttress {
namespace {

struct GroupSpec {
  std::uint64_t id = 0;
  std::vector<double> rewards;  // 1 is correct, 0 is wrong
  std::uint64_t oldest_step = 0;
};

constexpr double kUnscored = -1;  // in GroupSpec::rewards

// Each prompt has 3 tokens; each completion has 5 tokens, of which 4 are trained.
Plan MakePlan(const std::vector<GroupSpec>& groups) {
  Plan plan;
  plan.step = 5;
  for (const GroupSpec& group : groups) {
    v1::GroupHead head = MakeHead(group.id, {}, {1, group.oldest_step, ""});
    for (const double reward : group.rewards) {
      const bool scorable = reward != kUnscored;
      AddToHead(!scorable     ? Outcome::kUnscorable
                : reward == 1 ? Outcome::kCorrect
                              : Outcome::kWrong,
                scorable ? reward : 0, 5, head);
      if (scorable) head.set_trained_lengths(head.trained_lengths_size() - 1, 4);
    }
    plan.collapse.step.Add(ClassOf(head));
    plan.groups.push_back(std::make_shared<const v1::GroupHead>(head));
  }
  return plan;
}

// Changes the head of a group of the plan.
template <class Change>
void ChangeHead(Plan& plan, std::size_t k, Change change) {
  v1::GroupHead head = *plan.groups[k];
  change(head);
  plan.groups[k] = std::make_shared<const v1::GroupHead>(head);
}

class AssignmentTest : public testing::Test {
 protected:
  void SetUp() override {
    options.ranks = 2;
    options.micro_batch_tokens = 8;  // one completion each
  }

  Result<Assignment> Assign(const GateState& gate = {}) {
    return AssignStep(plan, options, gate, summary);
  }

  // Group 10 is rows 0 and 1, group 11 rows 2 and 3, group 12 rows 4 and 5.
  Plan plan = MakePlan({{10, {1, 0}, 4}, {11, {1, 1}, 2}, {12, {0, 1}, 4}});
  AssignmentOptions options;
  BatchSummary summary;
};

TEST_F(AssignmentTest, EpisodesAreSummedUp) {
  ASSERT_TRUE(Assign().ok());
  EXPECT_TRUE(std::isnan(summary.turns_mean)) << "without episodes";
  const auto make_episodes = [](v1::GroupHead& head, v1::EpisodeEnd second, bool counted) {
    for (const int turns : {1, 3}) {
      head.add_turns(turns);
      head.add_sampled_lengths(5);
      head.add_episode_ends(turns == 1 ? v1::EPISODE_END_DONE : second);
      for (int t = 0; t < turns; ++t) head.add_turn_rewards(0);
      if (!counted) continue;
      head.add_tool_calls(turns);
      head.add_failed_tool_calls(turns - 1);
      head.add_repeated_answers(turns / 3);
    }
  };
  const v1::EpisodeEnd ends[] = {v1::EPISODE_END_TURNS, v1::EPISODE_END_TOOLS,
                                 v1::EPISODE_END_TOOLS};
  for (std::size_t k = 0; k < 3; ++k)
    ChangeHead(plan, k, [&](v1::GroupHead& head) { make_episodes(head, ends[k], k < 2); });
  ASSERT_TRUE(Assign().ok());
  EXPECT_DOUBLE_EQ(summary.turns_mean, 2);
  EXPECT_DOUBLE_EQ(summary.tool_calls_mean, 2) << "of the groups that count them";
  EXPECT_DOUBLE_EQ(summary.failed_calls_share, 0.5);
  EXPECT_DOUBLE_EQ(summary.repeated_answers_share, 0.25);
  EXPECT_DOUBLE_EQ(summary.ends_done, 0.5);
  EXPECT_DOUBLE_EQ(summary.ends_turns, 1.0 / 6);
  EXPECT_DOUBLE_EQ(summary.ends_tools, 1.0 / 3);
  EXPECT_EQ(summary.ends_failed, 0);
}

TEST_F(AssignmentTest, AssignsEachGroupToARankAndEachCompletionWithAnAdvantageToAMicroBatch) {
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
  EXPECT_EQ(assigned->group_offsets, (std::vector<std::int32_t>{0, 2, 4, 6}));
  EXPECT_NE(assigned->rank_of_group[0],
            assigned->rank_of_group[2]);  // the two that are run share the ranks
  EXPECT_EQ(assigned->micro_batch[2], -1);
  EXPECT_EQ(assigned->micro_batch[3], -1);
  EXPECT_EQ(assigned->rounds, std::vector<std::int32_t>{2});
  EXPECT_GE(assigned->rank_of_group[1], 0);  // read for the statistics
  for (const double weight : assigned->token_weights)
    EXPECT_DOUBLE_EQ(weight, 1.0 / 24);  // 6 completions of 4 trained tokens
  EXPECT_EQ(summary.groups_trained, 2);
  EXPECT_EQ(summary.generated_tokens, 30);
  EXPECT_EQ(summary.zero_advantage_tokens, 8);
  EXPECT_EQ(summary.age_max, 2);
  EXPECT_NEAR(summary.age_mean, 2.0 / 3, 1e-12);
  EXPECT_NEAR(summary.shaped_reward_mean, 4.0 / 6, 1e-12);
  EXPECT_DOUBLE_EQ(summary.zero_advantage_share, 8.0 / 24);
  EXPECT_DOUBLE_EQ(summary.acr, 1.0 / 3);
  EXPECT_DOUBLE_EQ(summary.acr_all_correct, 1.0 / 3);
}

TEST_F(AssignmentTest, UnscorableCompletionsAreInNoLossAndNoDenominator) {
  plan = MakePlan({{10, {1, 0, kUnscored}}, {11, {1, 1}}, {12, {0, 1}}});
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
  EXPECT_EQ(assigned->advantages[2], 0);
  EXPECT_EQ(assigned->token_weights[2], 0);
  EXPECT_EQ(assigned->micro_batch[2], -1);
  EXPECT_DOUBLE_EQ(assigned->token_weights[0], 1.0 / 24);
  EXPECT_EQ(summary.unscorable, 1);
}

TEST_F(AssignmentTest, MaskingAndReplacingLeaveTheRatesOverDrawnGroupsAlone) {
  plan = MakePlan({{10, {1, 0, 0, 0}}, {11, {0, 0, 0, 0}}, {12, {0, 0, 0, 0}}});
  options.run.algorithm.advantage = Estimator::kAGrae;
  const auto all = Assign();
  options.run.batch.zero_variance = ZeroVariancePolicy::kMask;
  const auto masked = Assign();
  plan = MakePlan({{10, {1, 0, 0, 0}}});
  plan.collapse.step.Add(CollapseClass::kAllWrong);  // replaced
  plan.collapse.step.Add(CollapseClass::kAllWrong);
  const auto replaced = Assign();
  ASSERT_TRUE(all.ok() && masked.ok() && replaced.ok());
  EXPECT_GT(all->advantages[0], 0);
  EXPECT_NEAR(masked->advantages[0], all->advantages[0], 1e-12);
  EXPECT_NEAR(replaced->advantages[0], all->advantages[0], 1e-12);
}

TEST_F(AssignmentTest, TheShareOfMixedGroupsIsOfThoseThatWereDrawn) {
  plan = MakePlan({{10, {1, 0, 0, 0}}, {11, {0, 0, 0, 0}}, {12, {0, 0, 0, 0}}});
  options.run.algorithm.advantage = Estimator::kGpg;
  options.run.algorithm.gpg.form = GpgForm::kOfficial;
  const auto all = Assign();
  options.run.batch.zero_variance = ZeroVariancePolicy::kMask;
  const auto masked = Assign();
  plan = MakePlan({{10, {1, 0, 0, 0}}});
  plan.collapse.step.Add(CollapseClass::kAllWrong);  // replaced
  plan.collapse.step.Add(CollapseClass::kAllWrong);
  const auto replaced = Assign();
  ASSERT_TRUE(all.ok() && masked.ok() && replaced.ok());
  EXPECT_NEAR(all->advantages[0], 0.75 / (1.0 / 3 + 1e-5), 1e-12);
  EXPECT_EQ(masked->advantages[0], all->advantages[0]);
  EXPECT_EQ(replaced->advantages[0], all->advantages[0]);
}

TEST_F(AssignmentTest, AMixedGroupThatAnOperatorDroppedWasDrawn) {
  plan.collapse.step.Add(CollapseClass::kMixed);
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
  EXPECT_EQ(summary.groups_replaced, 1);
}

TEST_F(AssignmentTest, ThePriceComparesWhatWasDrawnWithWhatIsKept) {
  plan = MakePlan({{10, {1, 0}}, {11, {1, 1}}, {12, {0, kUnscored}}});
  plan.collapse.step.Add(CollapseClass::kAllWrong);  // replaced
  plan.drawn = {.completions = 8, .scorable = 7, .tokens = 40, .raw_reward = 3};
  ASSERT_TRUE(Assign().ok());
  EXPECT_DOUBLE_EQ(summary.drawn_raw_reward_mean, 3.0 / 7);
  EXPECT_DOUBLE_EQ(summary.drawn_per_kept, 40.0 / 30);
  EXPECT_EQ(summary.kept_groups, 3);
  EXPECT_DOUBLE_EQ(summary.kept_acr, 0.5);
  EXPECT_DOUBLE_EQ(summary.kept_raw_reward_mean, 3.0 / 5);
  options.run.batch.zero_variance = ZeroVariancePolicy::kMask;
  ASSERT_TRUE(Assign().ok());
  EXPECT_EQ(summary.drawn_tokens, 40);
  EXPECT_EQ(summary.kept_tokens, 10);
  EXPECT_EQ(summary.kept_groups, 1);
  EXPECT_EQ(summary.kept_acr, 0);
  EXPECT_DOUBLE_EQ(summary.kept_raw_reward_mean, 0.5);
}

TEST_F(AssignmentTest, TheDeviationOfTheRawRewardsLeavesUnscorableCompletionsOut) {
  plan = MakePlan({{10, {1, 0}}, {11, {1, 1}}, {12, {0, kUnscored}}});
  ASSERT_TRUE(Assign().ok());
  EXPECT_DOUBLE_EQ(summary.raw_reward_std, std::sqrt(0.6 * 0.4));
}

// Eight groups of source "easy", all correct, and eight of "hard", all mixed.
TEST_F(AssignmentTest, EachSourceHasAGateOfItsOwn) {
  std::vector<GroupSpec> groups;
  for (std::uint64_t id = 1; id <= 16; ++id)
    groups.push_back({id, id <= 8 ? std::vector<double>{1, 1} : std::vector<double>{1, 0}});
  plan = MakePlan(groups);
  plan.collapse.sources = {{"easy", {.groups = 8, .all_correct = 8}, {}},
                           {"hard", {.groups = 8, .mixed = 8}, {}}};
  for (std::size_t k = 0; k < 16; ++k)
    ChangeHead(plan, k, [k](v1::GroupHead& head) { head.set_source(k < 8 ? "easy" : "hard"); });
  options.run.algorithm.advantage = Estimator::kAvspo;
  options.run.algorithm.avspo.mode = AvspoMode::kOpposite;
  options.run.algorithm.avspo.acr_threshold = 0.6;  // above the rate of all groups, one half
  ASSERT_TRUE(Assign().ok());
  EXPECT_EQ(summary.virtual_groups, 8);
  ASSERT_EQ(summary.sources.size(), 2U);
  EXPECT_EQ(summary.sources[0].source, "easy");
  EXPECT_EQ(summary.sources[0].gate_rate, 1);
  EXPECT_EQ(summary.sources[0].gate_open, 1);
  EXPECT_EQ(summary.sources[0].virtual_groups, 8);
  EXPECT_EQ(summary.sources[0].accuracy(), 1);
  EXPECT_EQ(summary.sources[1].gate_open, 0);
  EXPECT_EQ(summary.sources[1].raw_reward_mean(), 0.5);
  for (std::size_t k = 0; k < 16; ++k)
    ChangeHead(plan, k, [](v1::GroupHead& head) { head.set_source("default"); });
  plan.collapse.sources = {{"default", plan.collapse.step, {}}};
  ASSERT_TRUE(Assign().ok());
  EXPECT_EQ(summary.virtual_groups, 0);
}

TEST_F(AssignmentTest, TheEffectiveRateCountsGroupsThatTeachNothingAfterEverything) {
  plan = MakePlan({{10, {1, 0, 0, 0}}, {11, {0, 0, 0, 0}}, {12, {1, 1, 1, 1}}, {13, {1, 1, 0, 0}}});
  plan.collapse.cumulative = plan.collapse.step;
  ASSERT_TRUE(Assign().ok());
  EXPECT_EQ(summary.plan_groups, 4);
  EXPECT_EQ(summary.groups_without_advantage, 2);
  EXPECT_EQ(summary.acr_effective, 0.5);
  EXPECT_EQ(summary.near_collapse, 0.25);
  options.run.batch.zero_variance = ZeroVariancePolicy::kMask;
  ASSERT_TRUE(Assign().ok());
  EXPECT_EQ(summary.groups_without_advantage, 2);
  options.run.batch.zero_variance = ZeroVariancePolicy::kKeep;
  options.run.algorithm.advantage = Estimator::kAvspo;
  options.run.algorithm.avspo.mode = AvspoMode::kOpposite;
  ASSERT_TRUE(Assign().ok());
  EXPECT_EQ(summary.groups_without_advantage, 0);  // ACR 0.5 opens the gate
}

TEST_F(AssignmentTest, OnlyAnEstimatorThatReadsComponentsNeedsThem) {
  EXPECT_TRUE(Assign().ok());
  options.run.algorithm.advantage = Estimator::kGdpo;
  EXPECT_EQ(Assign().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(AssignmentTest, AGroupWithoutScorableCompletionsTrainsNothing) {
  plan = MakePlan({{10, {1, 0}}, {11, {kUnscored, kUnscored}}, {12, {0, 1}}});
  const auto add_components = [this](std::size_t k, const std::vector<double>& components) {
    ChangeHead(plan, k, [&](v1::GroupHead& head) {
      for (const char* name : {"answer", "format"}) head.add_component_names(name);
      head.mutable_components()->Add(components.begin(), components.end());
    });
  };
  add_components(0, {1, 0.5, 0, 0.25});  // group 11 has no scorable completion, so none
  add_components(2, {0, 0.5, 1, 0.25});
  for (const Estimator advantage : {Estimator::kGrpo, Estimator::kGdpo}) {
    options.run.algorithm.advantage = advantage;
    const auto assigned = Assign();
    ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
    EXPECT_EQ(assigned->advantages[2], 0);
    EXPECT_EQ(assigned->advantages[3], 0);
    EXPECT_NE(assigned->advantages[0], 0);
  }
}

TEST_F(AssignmentTest, RawShapedAndComponentsAreMeansOverTheScorableCompletions) {
  plan = MakePlan({{10, {1, 0}}, {11, {1, kUnscored}}});
  ChangeHead(plan, 0, [](v1::GroupHead& head) {
    for (const char* name : {"answer", "format"}) head.add_component_names(name);
    for (const double value : {1.0, 0.5, 0.0, 1.0}) head.add_components(value);
    head.set_rewards(0, 1.25);  // answer + 0.5 * format
    head.set_rewards(1, 0.5);
  });
  options.run.sampling.max_tokens = options.run.algorithm.overlong.cache = 8;
  ASSERT_TRUE(Assign().ok());
  EXPECT_DOUBLE_EQ(summary.raw_reward_mean, 2.75 / 3);
  EXPECT_LT(summary.shaped_reward_mean, summary.raw_reward_mean);
  EXPECT_DOUBLE_EQ(summary.accuracy, 2.0 / 3);
  ASSERT_EQ(summary.components.size(), 2u);
  EXPECT_EQ(summary.components[0].name, "answer");
  EXPECT_DOUBLE_EQ(summary.components[0].reward_mean(), 0.5);
  EXPECT_EQ(summary.components[1].name, "format");
  EXPECT_DOUBLE_EQ(summary.components[1].reward_mean(), 0.75);
}

TEST_F(AssignmentTest, DecodeInvertsEncodeAndRejectsOtherBytes) {
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok());
  const std::string bytes = EncodeAssignment(*assigned);
  const auto decoded = DecodeAssignment(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(*decoded == *assigned);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeAssignment(std::string_view(bytes).substr(0, size)).status().code(),
              StatusCode::kDataLoss);
  }
  EXPECT_FALSE(DecodeAssignment(bytes + "x").ok());
}

TEST_F(AssignmentTest, TheGateContinuesFromItsState) {
  options.run.algorithm.advantage = Estimator::kAvspo;
  options.run.algorithm.avspo.mode = AvspoMode::kLadder;
  const GateState before{0.2, 0.5};  // ACR 1/3 is above, and J = 4/6 has risen
  ASSERT_TRUE(Assign(before).ok());
  EXPECT_EQ(summary.gate_open, 1);
  EXPECT_EQ(summary.gate_threshold, 0.2);
  EXPECT_EQ(summary.virtual_groups, 1);
  EXPECT_NEAR(*summary.next_gate.threshold, 0.2 + 0.01 * (1.0 / 3 - 0.2), 1e-15);
  EXPECT_NEAR(*summary.next_gate.reward_mean, 4.0 / 6, 1e-15);
}

TEST_F(AssignmentTest, RunsCompletionsWithEntropyAdvantages) {
  options.run.algorithm.advantage = Estimator::kRlZvp;
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
  EXPECT_EQ(assigned->advantages[2], 0);
  EXPECT_EQ(assigned->entropy_scale, (std::vector<double>{0, 0, 0.1, 0.1, 0, 0}));
  EXPECT_GE(assigned->micro_batch[2], 0);
  EXPECT_EQ(summary.zero_advantage_tokens, 0);
  const auto decoded = DecodeAssignment(EncodeAssignment(*assigned));
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(*decoded == *assigned);
}

TEST_F(AssignmentTest, OverlongFilterExcludesCutCompletionsFromTheLossButNotFromTheirGroup) {
  options.run.algorithm.overlong.filter = true;
  ChangeHead(plan, 0,
             [](v1::GroupHead& head) { head.set_finish_reasons(1, v1::FINISH_REASON_LENGTH); });
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
  EXPECT_EQ(assigned->lengths[1], 4);  // as it is read
  EXPECT_EQ(assigned->micro_batch[1], -1);
  EXPECT_EQ(assigned->token_weights[1], 0);
  EXPECT_GE(assigned->micro_batch[0], 0);
  EXPECT_GT(assigned->advantages[0], 0);  // against the reward of the one that is left out
  EXPECT_DOUBLE_EQ(assigned->token_weights[0], 1.0 / 20);
  EXPECT_EQ(summary.overlong_filtered, 1);
  options.run.algorithm.overlong.filter = false;
  EXPECT_GE(Assign()->micro_batch[1], 0);
  EXPECT_EQ(summary.overlong_filtered, 0);
}

TEST_F(AssignmentTest, SoftOverlongPenaltyChangesRewardsAndNotCollapse) {
  options.run.algorithm.advantage = Estimator::kDrGrpo;
  options.run.algorithm.overlong.cache = 4;
  options.run.algorithm.overlong.length = 6;
  ChangeHead(plan, 1, [](v1::GroupHead& head) {
    head.set_lengths(0, 6);  // the whole penalty
    head.set_lengths(1, 4);  // half of it
  });
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
  EXPECT_NEAR(assigned->advantages[2], -0.25, 1e-12);
  EXPECT_NEAR(assigned->advantages[3], 0.25, 1e-12);
  EXPECT_GT(summary.acr_all_correct, 0);  // raw rewards are equal all the same
  EXPECT_GE(assigned->micro_batch[2], 0);
}

TEST_F(AssignmentTest, AMaskedGroupIsInNoLossAndNoKeptDenominator) {
  options.run.algorithm.kl_coef = 0.1;  // would run it otherwise
  options.run.batch.zero_variance = ZeroVariancePolicy::kMask;
  options.run.batch.denominator = StepDenominator::kKept;
  plan.collapse.step.Add(CollapseClass::kAllWrong);  // drawn for the step, and replaced
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
  for (const std::size_t row : {2U, 3U}) {
    EXPECT_EQ(assigned->advantages[row], 0);
    EXPECT_EQ(assigned->token_weights[row], 0);
    EXPECT_EQ(assigned->micro_batch[row], -1);
    EXPECT_EQ(assigned->lengths[row], 4);  // it is read for the statistics
  }
  EXPECT_DOUBLE_EQ(assigned->token_weights[0], 1.0 / 16);  // 4 completions of 4 trained tokens
  EXPECT_EQ(summary.groups_masked, 1);
  EXPECT_EQ(summary.groups_replaced, 1);
  EXPECT_EQ(summary.groups_trained, 2);
  EXPECT_EQ(summary.tokens, 16);
  EXPECT_GT(summary.acr_all_correct, 0);  // raw
  EXPECT_NEAR(summary.shaped_reward_mean, 4.0 / 6, 1e-12);
}

// An estimator that looks at the whole batch sees the groups that train, as DAPO's filter comes
// before its advantages.
// Rewards that are all equal have the advantage 0, so that it makes no difference to the gradient
// whether such groups are in the loss.
TEST_F(AssignmentTest, TheDrawnDenominatorGivesTheGradientOfAllGroups) {
  using enum Aggregation;
  for (const Aggregation aggregation : {kTokenMean, kTokenSum, kGroupTokenMean, kSeqMeanTokenMean,
                                        kSeqMeanTokenSum, kSeqMeanTokenSumNorm}) {
    options.run.algorithm.aggregation = aggregation;
    plan = MakePlan({{10, {1, 0}}, {11, {1, 1, kUnscored}}, {12, {0, 1}}});
    options.run.batch.zero_variance = ZeroVariancePolicy::kKeep;
    const auto kept = Assign();
    options.run.batch.zero_variance = ZeroVariancePolicy::kMask;
    const auto masked = Assign();
    ASSERT_TRUE(kept.ok() && masked.ok());
    EXPECT_EQ(masked->advantages, kept->advantages);
    for (const std::size_t row : {0, 1, 5, 6})
      EXPECT_DOUBLE_EQ(masked->token_weights[row], kept->token_weights[row]);
    for (const std::size_t row : {2, 3, 4}) EXPECT_EQ(masked->token_weights[row], 0);
  }
}

TEST_F(AssignmentTest, TheDrawnDenominatorCountsReplacedGroups) {
  plan = MakePlan({{10, {1, 0}}, {12, {0, 1}}});
  plan.collapse.step.Add(CollapseClass::kAllWrong);
  plan.collapse.step.Add(CollapseClass::kAllWrong);
  plan.drawn = {.completions = 8, .scorable = 8, .tokens = 20 + 2 * 10, .raw_reward = 2};
  options.run.batch.zero_variance = ZeroVariancePolicy::kResample;
  const auto by_tokens = Assign();
  options.run.algorithm.aggregation = Aggregation::kSeqMeanTokenMean;
  const auto by_completions = Assign();
  options.run.algorithm.aggregation = Aggregation::kGroupTokenMean;
  const auto by_groups = Assign();
  options.run.batch.denominator = StepDenominator::kKept;
  const auto of_kept = Assign();
  ASSERT_TRUE(by_tokens.ok() && by_completions.ok() && by_groups.ok() && of_kept.ok());
  EXPECT_DOUBLE_EQ(by_tokens->token_weights[0], 1.0 / (16 + 20));
  EXPECT_DOUBLE_EQ(by_completions->token_weights[0], 1.0 / (8 * 4));
  EXPECT_DOUBLE_EQ(by_groups->token_weights[0], 1.0 / (4 * 8));
  EXPECT_DOUBLE_EQ(of_kept->token_weights[0], 1.0 / (2 * 8));
}

TEST_F(AssignmentTest, AGroupCountsForThePromptsThatItWasDrawnInPlaceOf) {
  const auto plain = Assign();
  EXPECT_TRUE(std::isnan(summary.acr_dataset));
  ChangeHead(plan, 0,
             [](v1::GroupHead& head) { head.mutable_history()->set_draw_probability(0.25); });
  const auto biased = Assign();
  options.run.data.selection.unbiased = true;
  const auto weighed = Assign();
  ASSERT_TRUE(plain.ok() && biased.ok() && weighed.ok());
  EXPECT_EQ(*biased, *plain);
  EXPECT_EQ(weighed->advantages, plain->advantages);
  for (std::size_t row = 0; row < 6; ++row)
    EXPECT_EQ(weighed->token_weights[row], plain->token_weights[row] * (row < 2 ? 4 : 1));
  EXPECT_DOUBLE_EQ(summary.acr, 1.0 / 3);
  EXPECT_DOUBLE_EQ(summary.acr_dataset, 1.0 / 6);    // of 4 mixed, 1 constant and 1 mixed prompt
  plan.collapse.step.Add(CollapseClass::kAllWrong);  // replaced: its probability is not known
  ASSERT_TRUE(Assign().ok());
  EXPECT_TRUE(std::isnan(summary.acr_dataset));
}

TEST_F(AssignmentTest, AMaskedGroupIsInNoStatisticOfTheEstimator) {
  options.run.algorithm.advantage = Estimator::kReinforcePp;
  options.run.batch.zero_variance = ZeroVariancePolicy::kMask;
  const auto masked = Assign();
  ASSERT_TRUE(masked.ok()) << masked.status().ToString();
  plan = MakePlan({{10, {1, 0}}, {12, {0, 1}}});
  const auto without = Assign();
  ASSERT_TRUE(without.ok());
  EXPECT_EQ((std::vector<double>{masked->advantages[0], masked->advantages[1],
                                 masked->advantages[4], masked->advantages[5]}),
            without->advantages);
}

TEST_F(AssignmentTest, AStepOfOnlyMaskedGroupsRunsNothing) {
  plan = MakePlan({{10, {1, 1}}, {11, {0, 0}}});
  options.run.batch.zero_variance = ZeroVariancePolicy::kMask;
  const auto assigned = Assign();
  ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
  EXPECT_EQ(assigned->rounds, std::vector<std::int32_t>{0});
  EXPECT_EQ(summary.tokens, 0);
}

TEST_F(AssignmentTest, WhatABatchWithoutScorableCompletionsCannotKnowIsNotMeasured) {
  plan = MakePlan({{10, {kUnscored, kUnscored}}});
  ASSERT_TRUE(Assign().ok());
  for (const double rate : {summary.acr, summary.acr_all_wrong, summary.raw_reward_mean,
                            summary.raw_reward_std, summary.shaped_reward_mean, summary.accuracy})
    EXPECT_TRUE(std::isnan(rate));
}

TEST_F(AssignmentTest, EachUpdateIsABatchOfItsOwn) {
  for (const MiniBatchOf of : {MiniBatchOf::kPrompts, MiniBatchOf::kCompletions}) {
    options.run.batch.updates = 3;
    options.run.batch.mini_batch = of;
    ChangeHead(plan, 0, [](v1::GroupHead& head) { head.set_trained_lengths(0, 3); });
    options.run.algorithm.aggregation = Aggregation::kTokenMean;
    const auto assigned = Assign();
    ASSERT_TRUE(assigned.ok()) << assigned.status().ToString();
    EXPECT_EQ(assigned->updates(), 3);
    std::vector<double> sums(3, 0.0);
    for (std::size_t row = 0; row < 6; ++row) {
      const auto update = static_cast<std::size_t>(assigned->update_of_row[row]);
      sums.at(update) += assigned->token_weights[row] * assigned->lengths[row];
      EXPECT_LT(assigned->micro_batch[row], assigned->rounds[update]);
    }
    for (const double sum : sums) EXPECT_DOUBLE_EQ(sum, 1);
    EXPECT_EQ(*DecodeAssignment(EncodeAssignment(*assigned)), *assigned);
    options.run.batch.updates = 1;  // the advantages are those of the whole step
    EXPECT_EQ(Assign()->advantages, assigned->advantages);
  }
}

TEST_F(AssignmentTest, RejectsCountsThatContradictTheClasses) {
  plan.collapse.step.all_correct += 1;
  EXPECT_EQ(Assign().status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace buttress
