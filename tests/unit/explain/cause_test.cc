#include "lib/explain/cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/explain/turn_credit.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

const CauseRules kRules;

std::string LongText(int number, int words = 100) {
  std::string text;
  for (int i = 0; i < words; ++i)
    text += "n" + std::to_string(number) + "w" + std::to_string(i) + " ";
  return text + ".";
}

// Eight completions with different texts and one reward.
GroupFacts Constant(double reward) {
  GroupFacts group;
  group.prompt_id = "p";
  for (int i = 0; i < 8; ++i) {
    CompletionFacts& c = group.completions.emplace_back();
    c.SetRewards(reward);
    c.text = FactsOfText(LongText(i));
  }
  return group;
}

GroupContext Ordinary() {
  GroupContext context;
  context.lowest = 0;
  context.highest = 1;
  context.similarity = 0.2;
  return context;
}

Cause Named(const GroupFacts& group, const GroupContext& context = Ordinary()) {
  return Diagnose(group, context, kRules).cause;
}

TEST(CauseTest, ConstantGroupsWithoutAnotherReasonAreEasyOrHard) {
  GroupContext context = Ordinary();
  context.past_correct = context.past_scored = 8;
  EXPECT_EQ(Named(Constant(1), context), Cause::kTooEasy);
  context.past_correct = 0;
  EXPECT_EQ(Named(Constant(0), context), Cause::kTooHard);
}

TEST(CauseTest, WithoutARecentVisitTheSourceIsTheCauseAndTheEvidenceSaysSo) {
  GroupContext context = Ordinary();
  const Diagnosis unknown_source = Diagnose(Constant(1), context, kRules);
  EXPECT_EQ(unknown_source.cause, Cause::kEasySource);
  EXPECT_EQ(unknown_source.evidence,
            "all 8 correct, first seen; of its source nothing is known, and with probability 0.85 "
            "the success rate of the prompt is above 0.8");
  // Four in five prompts are never solved, the others at 1/2.
  std::vector<GroupTrials> groups(400, {{}, {0, 8}});
  groups.resize(500, {{}, {4, 8}});
  context.difficulty = Difficulty::Fit(groups);
  context.difficulty_groups = 500;
  context.last_visit = 0;
  GroupFacts group = Constant(0);
  group.step = 900;
  const Diagnosis hard = Diagnose(group, context, kRules);
  EXPECT_EQ(hard.cause, Cause::kHardSource);
  EXPECT_EQ(hard.evidence,
            "all 8 wrong, last seen 900 steps before; its source leads to all 8 wrong in 79 % of "
            "its groups, and with probability 1.00 the success rate of the prompt is below 0.2");
}

TEST(CauseTest, APromptThatIsOftenSolvedIsNotTooHardForOneBadGroup) {
  GroupContext context = Ordinary();
  context.past_correct = 10;
  context.past_scored = 16;
  EXPECT_EQ(Named(Constant(0), context), Cause::kUnknown);
}

TEST(CauseTest, TwoEqualRewardsWithoutAHistoryAreUnknown) {
  GroupFacts group = Constant(1);
  group.completions.resize(2);
  EXPECT_EQ(Named(group), Cause::kUnknown);
}

TEST(CauseTest, AFirstVisitIsJudgedByTheDifficultyOfItsSource) {
  // Prompts at 1/2: eight of eight are luck, whatever eight of eight would say alone.
  std::vector<GroupTrials> groups;
  for (int correct = 2; correct <= 6; ++correct)
    groups.resize(groups.size() + 100, {{}, {static_cast<double>(correct), 8}});
  GroupContext context = Ordinary();
  context.difficulty = Difficulty::Fit(groups);
  const Diagnosis lucky = Diagnose(Constant(1), context, kRules);
  EXPECT_EQ(lucky.cause, Cause::kUnknown);
  EXPECT_NE(lucky.evidence.find("and with probability 0.0"), std::string::npos) << lucky.evidence;
  EXPECT_EQ(Named(Constant(0), context), Cause::kUnknown);
  context.past_correct = context.past_scored = 64;  // it was always solved before
  EXPECT_EQ(Named(Constant(1), context), Cause::kTooEasy);
}

TEST(CauseTest, ASourceThatWasNeverRightHasABoundOnItsRateAndNoCulprit) {
  GroupContext context = Ordinary();
  context.never_right = 256;
  const Diagnosis never = Diagnose(Constant(0), context, kRules);
  EXPECT_EQ(never.cause, Cause::kNeverRight);
  EXPECT_EQ(never.evidence,
            "none of 256 completions of this source was right, so p is below 1.2 %");
  EXPECT_EQ(Named(Constant(1), context), Cause::kEasySource);
  GroupFacts stated = Constant(0);
  for (std::size_t i = 0; i < 8; ++i) stated.completions[i].states_truth = i < 3;
  EXPECT_EQ(Diagnose(stated, context, kRules).evidence,
            "none of 256 completions of this source was right, so p is below 1.2 %, but 3 of 8 "
            "state the ground truth");
}

TEST(CauseTest, AllWrongAfterVisitsThatWereMostlyRightSpeaksAgainstThem) {
  GroupContext context = Ordinary();
  context.past_scored = context.visits_scored = 16;
  context.past_correct = context.visits_correct = 15;
  const Diagnosis against = Diagnose(Constant(0), context, kRules);
  EXPECT_EQ(against.cause, Cause::kAgainstHistory);
  // 2 3 .. 9 / (18 19 .. 25) of a beta-binomial distribution.
  EXPECT_EQ(against.evidence,
            "all 8 wrong, which has probability 8e-06 after a success rate of 0.94 at earlier "
            "visits");
  EXPECT_EQ(Named(Constant(1), context), Cause::kTooEasy);
  context.past_correct = context.visits_correct = 10;
  EXPECT_EQ(Named(Constant(0), context), Cause::kUnknown);
}

TEST(CauseTest, RewardsOfMinusOneAndOneAreHardAndEasy) {
  GroupContext context = Ordinary();
  context.lowest = -1;
  EXPECT_EQ(Named(Constant(-1), context), Cause::kHardSource);
  EXPECT_EQ(Named(Constant(1), context), Cause::kEasySource);
  EXPECT_EQ(Named(Constant(0.3), context), Cause::kUnknown);
}

TEST(CauseTest, RewardsThatDifferByRoundingAreFloatNoise) {
  GroupFacts group = Constant(0.7);
  group.completions[3].deciding_reward = static_cast<double>(0.7F);
  EXPECT_NE(group.collapse(), CollapseClass::kMixed);
  EXPECT_TRUE(DiffersByRounding(group));
  EXPECT_EQ(Named(group), Cause::kFloatNoise);
  group.completions[3].deciding_reward = 0.7001;
  EXPECT_EQ(group.collapse(), CollapseClass::kMixed);
}

TEST(CauseTest, HalfOfAGroupWithoutAVerdictIsUnscorable) {
  GroupFacts group = Constant(0);
  for (int i = 0; i < 4; ++i)
    group.completions[static_cast<std::size_t>(i)].deciding_reward =
        std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Named(group), Cause::kUnscorable);
  group.completions[0].deciding_reward = 0;
  EXPECT_EQ(Named(group), Cause::kHardSource);
}

TEST(CauseTest, WeightsFarBehindTheStepAreStale) {
  GroupFacts group = Constant(0);
  group.step = 40;
  group.version_step = 40 - kRules.stale_steps;
  EXPECT_EQ(Named(group), Cause::kHardSource);
  group.version_step = *group.version_step - 1;
  EXPECT_EQ(Named(group), Cause::kStaleWeights);
}

TEST(CauseTest, TextsOfAnEarlierVisitAreStaleWeights) {
  GroupContext context = Ordinary();
  context.repeated_share = 0.75;
  EXPECT_EQ(Named(Constant(0), context), Cause::kStaleWeights);
}

TEST(CauseTest, CopiesOfALongTextAreDuplicates) {
  GroupFacts group = Constant(0);
  for (CompletionFacts& c : group.completions) c.text = FactsOfText(LongText(0));
  EXPECT_EQ(Named(group), Cause::kDuplicateSamples);
}

TEST(CauseTest, CopiesOfAShortCorrectAnswerAreAnEasyPrompt) {
  GroupFacts group = Constant(1);
  for (CompletionFacts& c : group.completions) c.text = FactsOfText("42");
  EXPECT_EQ(Named(group), Cause::kEasySource);
}

TEST(CauseTest, LogProbsAttributeCopiesToSamplerOrPolicy) {
  GroupFacts group = Constant(0);
  for (CompletionFacts& c : group.completions) {
    c.text = FactsOfText(LongText(0, 12));
    c.logprob = -30;
  }
  EXPECT_EQ(Named(group), Cause::kDuplicateSamples);
  for (CompletionFacts& c : group.completions) c.logprob = -0.05;
  EXPECT_EQ(Named(group), Cause::kModeCollapsed);
  for (CompletionFacts& c : group.completions) c.deciding_reward = 1;
  EXPECT_EQ(Named(group), Cause::kEasySource);  // short, correct and certain
}

TEST(CauseTest, AFewCopiesOfShortTextsAreNotModeCollapse) {
  GroupFacts group = Constant(0);
  for (std::size_t i = 0; i < 8; ++i) {
    group.completions[i].text = FactsOfText(LongText(static_cast<int>(i / 2), 8));
    group.completions[i].logprob = -2;
  }
  EXPECT_EQ(Named(group), Cause::kHardSource);
}

TEST(CauseTest, NearCopiesAreModeCollapse) {
  GroupFacts group = Constant(1);
  for (std::size_t i = 0; i < 8; ++i) {
    std::string text = LongText(0);
    text.replace(text.find("w50"), 3, "x" + std::to_string(i));
    group.completions[i].text = FactsOfText(text);
  }
  EXPECT_EQ(Named(group), Cause::kModeCollapsed);
}

TEST(CauseTest, CompletionsAtTheLimitAreTruncatedUnlessCorrect) {
  GroupFacts group = Constant(0);
  for (std::size_t i = 0; i < 8; ++i) group.completions[i].truncated = i < 4;
  EXPECT_EQ(Named(group), Cause::kTruncated);
  for (CompletionFacts& c : group.completions) c.deciding_reward = 1;
  EXPECT_EQ(Named(group), Cause::kEasySource);
}

TEST(CauseTest, EpisodesAtALimitNameTheSettingUnlessCorrect) {
  GroupFacts group = Constant(0);
  for (std::size_t i = 0; i < 4; ++i) group.completions[i].limit = "run.env.max_turns";
  group.completions[3].limit = "run.env.max_tokens";
  const Diagnosis diagnosis = Diagnose(group, Ordinary(), kRules);
  EXPECT_EQ(diagnosis.cause, Cause::kEpisodeLimit);
  EXPECT_EQ(diagnosis.evidence, "4 of 8 episodes ended at a limit, 3 of them at run.env.max_turns");
  for (CompletionFacts& c : group.completions) c.deciding_reward = 1;
  EXPECT_EQ(Named(group), Cause::kEasySource);
  group = Constant(0);
  for (std::size_t i = 0; i < 3; ++i) group.completions[i].limit = "run.env.max_turns";
  EXPECT_EQ(Named(group), Cause::kHardSource);
}

// A group of wrong episodes of three turns and two calls.
GroupFacts Episodes(std::int32_t failed_calls, std::int32_t repeated_answers) {
  GroupFacts group = Constant(0);
  for (CompletionFacts& c : group.completions) {
    c.tokens = 300;
    c.episode = EpisodeFacts{
        .turns = 3, .calls = 2, .failed_calls = failed_calls, .repeated_answers = repeated_answers};
  }
  return group;
}

TEST(CauseTest, MostToolCallsFailed) {
  EXPECT_EQ(Named(Episodes(1, 0)), Cause::kHardSource) << "half of the calls are not most";
  GroupFacts group = Episodes(2, 0);
  EXPECT_EQ(Diagnose(group, Ordinary(), kRules).evidence, "16 of 16 tool calls failed");
  group.failed_by_tool = {{"", 7}, {"python", 9}};
  Diagnosis diagnosis = Diagnose(group, Ordinary(), kRules);
  EXPECT_EQ(diagnosis.cause, Cause::kFailingTools);
  EXPECT_EQ(diagnosis.evidence, "16 of 16 tool calls failed, 9 of them of python");
  group.failed_by_tool = {{"", 9}, {"python", 7}};
  diagnosis = Diagnose(group, Ordinary(), kRules);
  EXPECT_EQ(diagnosis.cause, Cause::kUnreadableCalls);
  EXPECT_EQ(diagnosis.evidence,
            "16 of 16 tool calls failed, 9 of them in no form that can be read");
  for (std::size_t i = 0; i < 5; ++i) group.completions[i].episode->calls = 0;
  for (std::size_t i = 0; i < 5; ++i) group.completions[i].episode->failed_calls = 0;
  EXPECT_EQ(Named(group), Cause::kHardSource) << "most episodes call no tool";
  group = Episodes(2, 0);
  for (CompletionFacts& c : group.completions) c.deciding_reward = 1;
  EXPECT_EQ(Named(group), Cause::kEasySource);
}

TEST(CauseTest, AnswersThatRepeatAreALoop) {
  GroupFacts group = Episodes(0, 2);
  for (CompletionFacts& c : group.completions) c.limit = "run.env.max_turns";
  const Diagnosis diagnosis = Diagnose(group, Ordinary(), kRules);
  EXPECT_EQ(diagnosis.cause, Cause::kLoops);
  EXPECT_EQ(diagnosis.evidence,
            "16 of 16 answers behind the first of their episode repeat an earlier one word for "
            "word");
  for (CompletionFacts& c : group.completions) c.tokens = 3 * kRules.room_words - 1;
  EXPECT_EQ(Named(group), Cause::kEpisodeLimit) << "short answers cannot differ much";
  EXPECT_EQ(Named(Episodes(0, 1)), Cause::kHardSource);
}

TEST(CauseTest, TurnCreditWithoutRewardsOfTurnsIsAdvisedAgainst) {
  GroupFacts group = Episodes(0, 0);
  group.turn_credit = true;
  TurnCredit credit;
  for (int i = 0; i < 13; ++i) credit.Add({&group, 1});
  EXPECT_EQ(credit.of_turns, 104);
  EXPECT_THAT(credit.Advice(100), HasSubstr("none of 104 episodes of two turns or more has a "
                                            "reward before its last turn (p below 2.9 %)"));
  EXPECT_EQ(credit.Advice(105), "");
  group.completions[0].episode->rewarded_early = true;
  group.completions[0].episode->branches = 2;
  group.completions[0].episode->rewarded_branches = 1;
  credit.Add({&group, 1});
  EXPECT_EQ(credit.Advice(100), "");
  EXPECT_THAT(credit.Advice(1), HasSubstr("none of 1 episodes with branches"));
  group.completions[0].episode->rewarded_branches = 2;
  credit.Add({&group, 1});
  EXPECT_EQ(credit.Advice(1), "");
  group.turn_credit = false;
  TurnCredit none;
  none.Add({&group, 1});
  EXPECT_EQ(none.of_turns, 0);
}

TEST(CauseTest, ATrustedSecondVerifierContradictsTheFirst) {
  GroupFacts group = Constant(0);
  for (std::size_t i = 0; i < 8; ++i) group.completions[i].states_truth = i < 3;
  GroupContext context = Ordinary();
  context.truth_agreement = 0.99;
  EXPECT_EQ(Named(group, context), Cause::kVerifierConstant);
  context.truth_agreement = 0.6;  // it cannot judge this task
  EXPECT_EQ(Named(group, context), Cause::kHardSource);
}

TEST(CauseTest, ASuddenlyConstantSourceHasABrokenVerifier) {
  GroupContext context = Ordinary();
  context.constant_chance = 1e-9;
  context.constant_groups = 16;
  EXPECT_EQ(Named(Constant(0), context), Cause::kVerifierConstant);
  context.constant_groups = 2;
  EXPECT_EQ(Named(Constant(0), context), Cause::kHardSource);
}

TEST(CauseTest, EveryCauseHasANameAMeaningAndAFix) {
  for (std::size_t i = 0; i < kCauses; ++i) {
    const CauseInfo& info = InfoOf(static_cast<Cause>(i));
    EXPECT_FALSE(info.name.empty() || info.meaning.empty() || info.fix.empty()) << i;
  }
}

}  // namespace
}  // namespace buttress
