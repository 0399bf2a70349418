#include "lib/rl/credit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/rl/assignment.h"
#include "tests/support/make_head.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A completion of an episode: its parent and the rewards of its turns.
struct Branch {
  std::int32_t parent = -1;
  std::vector<double> turns;
};

// Each completion has 5 tokens for each of its turns, all trained.
v1::GroupHead EpisodesHead(std::uint64_t id, const std::vector<Branch>& branches,
                           const std::vector<double>& rewards) {
  v1::GroupHead head = MakeHead(id, {});
  std::size_t episodes = 0;
  for (const Branch& branch : branches) head.add_parents(branch.parent);
  for (const Branch& branch : branches) {
    episodes += branch.parent < 0 ? 1 : 0;
    const double reward = rewards[episodes - 1];
    head.add_turns(static_cast<std::int32_t>(branch.turns.size()));
    head.mutable_turn_rewards()->Add(branch.turns.begin(), branch.turns.end());
    head.add_episode_ends(v1::EPISODE_END_DONE);
    AddToHead(reward == 1 ? Outcome::kCorrect : Outcome::kWrong, reward,
              static_cast<std::int32_t>(5 * branch.turns.size()), head);
  }
  return head;
}

Plan PlanOf(const std::vector<v1::GroupHead>& heads) {
  Plan plan;
  plan.step = 5;
  for (const v1::GroupHead& head : heads) {
    plan.collapse.step.Add(ClassOf(head));
    plan.drawn.Add(head);
    plan.groups.push_back(std::make_shared<const v1::GroupHead>(head));
  }
  return plan;
}

// A right episode of two turns beside a wrong one with a branch, and two groups of right ones.
Plan BranchingPlan() {
  return PlanOf({EpisodesHead(1, {{-1, {0.25, 0.75}}, {-1, {0}}, {1, {0}}}, {1, 0}),
                 EpisodesHead(2, {{-1, {0.5, 0.5}}, {-1, {1}}}, {1, 1}),
                 EpisodesHead(3, {{-1, {1}}, {-1, {1}}}, {1, 1})});
}

AssignmentOptions OptionsOf(EpisodeCredit credit) {
  AssignmentOptions options;
  options.micro_batch_tokens = 64;
  options.run.env.credit = credit;
  return options;
}

Assignment Assigned(const Plan& plan, Estimator estimator, EpisodeCredit credit,
                    BatchSummary* summary = nullptr) {
  AssignmentOptions options = OptionsOf(credit);
  options.run.algorithm.advantage = estimator;
  options.run.algorithm.avspo.mode = AvspoMode::kOpposite;
  BatchSummary ignored;
  auto assignment = AssignStep(plan, options, {}, summary != nullptr ? *summary : ignored);
  EXPECT_TRUE(assignment.ok()) << assignment.status().message();
  return assignment.ok() ? *assignment : Assignment();
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
}

// The numbers are those of normalize, rloo and among of tests/golden/make_advantages.py, for the
// rewards {1, 0}, {1, 1} and {1, 1} of the episodes.
TEST(CreditTest, EpisodesAreComparedAndTheirBranchesHaveTheirAdvantages) {
  const Plan plan = BranchingPlan();
  const double grpo = 0.7071057811879616, virtual_sample = 0.5773492691913578;
  const auto of = [&](Estimator estimator) {
    return Assigned(plan, estimator, EpisodeCredit::kEpisode);
  };
  ExpectNear(of(Estimator::kGrpo).advantages, {grpo, -grpo, -grpo, 0, 0, 0, 0});
  ExpectNear(of(Estimator::kRloo).advantages, {1, -1, -1, 0, 0, 0, 0});
  ExpectNear(of(Estimator::kAvspo).advantages,
             {grpo, -grpo, -grpo, virtual_sample, virtual_sample, virtual_sample, virtual_sample});
  EXPECT_THAT(of(Estimator::kGrpo).turn_offsets, IsEmpty());
}

// The same for the returns {1, 0.75, 0, 0}, {1, 0.5, 1} and {1, 1} of the turns.
TEST(CreditTest, TurnsAreComparedByTheirOwnAndLaterRewards) {
  const Plan plan = BranchingPlan();
  const auto of = [&](Estimator estimator) {
    return Assigned(plan, estimator, EpisodeCredit::kTurn);
  };
  const double mean = 0.5773482691965539, virtual_sample = 0.5773492691913578;
  const Assignment grpo = of(Estimator::kGrpo);
  EXPECT_THAT(grpo.turn_offsets, ElementsAre(0, 2, 3, 4, 6, 7, 8, 9));
  ExpectNear(grpo.turn_advantages, {1.0914081950205483, 0.6063378861225268, -0.8488730405715376,
                                    -0.8488730405715376, mean, -1.1546965383931083, mean, 0, 0});
  ExpectNear({grpo.advantages[0]}, {(1.0914081950205483 + 0.6063378861225268) / 2});
  ExpectNear(of(Estimator::kRloo).turn_advantages,
             {0.75, 1.25 / 3, -1.75 / 3, -1.75 / 3, 0.25, -0.5, 0.25, 0, 0});
  ExpectNear(of(Estimator::kAvspo).turn_advantages,
             {1.0914081950205483, 0.6063378861225268, -0.8488730405715376, -0.8488730405715376,
              mean, -1.1546965383931083, mean, virtual_sample, virtual_sample});
}

TEST(CreditTest, EpisodesOfOneTurnAreCompletionsBitByBit) {
  const Plan episodes = PlanOf({EpisodesHead(1, {{-1, {1}}, {-1, {0}}, {-1, {0.3}}}, {1, 0, 0.3}),
                                EpisodesHead(2, {{-1, {0}}, {-1, {0}}}, {0, 0})});
  Plan plain = episodes;
  for (GroupHeadPtr& group : plain.groups) {
    v1::GroupHead head = *group;
    head.clear_parents();
    head.clear_turns();
    head.clear_turn_rewards();
    head.clear_episode_ends();
    group = std::make_shared<const v1::GroupHead>(head);
  }
  for (const Estimator estimator : {Estimator::kGrpo, Estimator::kRloo, Estimator::kAvspo}) {
    const Assignment expected = Assigned(plain, estimator, EpisodeCredit::kEpisode);
    EXPECT_EQ(Assigned(episodes, estimator, EpisodeCredit::kEpisode), expected);
    Assignment turns = Assigned(episodes, estimator, EpisodeCredit::kTurn);
    EXPECT_EQ(turns.turn_advantages, expected.advantages);
    turns.turn_offsets.clear();
    turns.turn_advantages.clear();
    EXPECT_EQ(turns, expected);
  }
}

TEST(CreditTest, AFurtherBranchChangesNoAdvantageOfOthersAndIsWeighedAsTokens) {
  const auto plan = [](int branches) {
    std::vector<Branch> all = {{-1, {1}}, {-1, {0}}, {-1, {1}}};
    for (int b = 0; b < branches; ++b) all.insert(all.begin() + 1, {0, {0}});
    return PlanOf({EpisodesHead(1, all, {1, 0, 1})});
  };
  for (const Estimator estimator :
       {Estimator::kGrpo, Estimator::kRloo, Estimator::kAvspo, Estimator::kPassAtK}) {
    BatchSummary alone, with;
    const Assignment before = Assigned(plan(0), estimator, EpisodeCredit::kEpisode, &alone);
    const Assignment after = Assigned(plan(2), estimator, EpisodeCredit::kEpisode, &with);
    EXPECT_EQ(after.advantages,
              (std::vector<double>{before.advantages[0], before.advantages[0], before.advantages[0],
                                   before.advantages[1], before.advantages[2]}));
    EXPECT_EQ(with.completions, 3);
    EXPECT_EQ(with.raw_reward_mean, alone.raw_reward_mean);
    EXPECT_EQ(with.accuracy, alone.accuracy);
    EXPECT_EQ(with.tokens, 25);
    EXPECT_EQ(after.update_of_row, (std::vector<std::int32_t>(5, 0)));
  }
  // seq_mean_token_mean: three episodes, of which one has 15 tokens in its branches.
  AssignmentOptions options = OptionsOf(EpisodeCredit::kEpisode);
  options.run.algorithm.aggregation = Aggregation::kSeqMeanTokenMean;
  BatchSummary summary;
  const auto weighed = AssignStep(plan(2), options, {}, summary);
  ASSERT_TRUE(weighed.ok());
  ExpectNear(weighed->token_weights, {1.0 / 45, 1.0 / 45, 1.0 / 45, 1.0 / 15, 1.0 / 15});
}

TEST(CreditTest, ThePenaltyOfAnEpisodeIsThatOfItsLastTurn) {
  Plan plan = PlanOf({EpisodesHead(1, {{-1, {0.25, 0.75}}, {-1, {0}}}, {1, 0})});
  AssignmentOptions options = OptionsOf(EpisodeCredit::kTurn);
  options.run.algorithm.advantage = Estimator::kDrGrpo;
  BatchSummary summary;
  const std::vector<double> kl = {0.5, 0};
  const auto assigned = AssignStep(plan, options, {}, summary, kl);
  ASSERT_TRUE(assigned.ok()) << assigned.status().message();
  ExpectNear(assigned->turn_advantages, {0.25, 0, -0.25});  // of the returns {0.5, 0.25, 0}
}

TEST(CreditTest, TurnsThatAPlanDoesNotHaveAreRefused) {
  const AssignmentOptions options = OptionsOf(EpisodeCredit::kTurn);
  BatchSummary summary;
  const auto assigned =
      AssignStep(PlanOf({MakeHead(7, {Outcome::kCorrect})}), options, {}, summary);
  EXPECT_EQ(assigned.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(assigned.status().message(), HasSubstr("completion 0 of group 7 has no turns"));
}

TEST(CreditTest, TurnsSurviveTheBroadcast) {
  const Assignment turns = Assigned(BranchingPlan(), Estimator::kGrpo, EpisodeCredit::kTurn);
  const auto read = DecodeAssignment(EncodeAssignment(turns));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, turns);
  Assignment cut = turns;
  cut.turn_advantages.pop_back();
  EXPECT_EQ(DecodeAssignment(EncodeAssignment(cut)).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace buttress
