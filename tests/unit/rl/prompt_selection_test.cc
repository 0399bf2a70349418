#include "lib/rl/prompt_selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace buttress {
namespace {

using enum Outcome;

PromptRecord After(const std::vector<std::vector<Outcome>>& groups, double decay = 1.0) {
  PromptRecord record;
  std::uint64_t pass = 0;
  for (const auto& outcomes : groups) {
    std::vector<double> rewards;
    for (const Outcome outcome : outcomes) rewards.push_back(outcome == kCorrect ? 1.0 : 0.0);
    AddGroup(rewards, outcomes, ClassifyGroup(rewards, outcomes), pass++, decay, record);
  }
  return record;
}

// Skip probabilities for base .5 and 0 ... 7 easy groups in a row.
TEST(PromptSelection, GresoSkipsWithTheProbabilitiesOfTheReleasedCode) {
  const double skip[] = {0, .5, .75, .875, .9375, .96875, .984375, .99};
  for (std::int64_t z = 0; z < 8; ++z) EXPECT_DOUBLE_EQ(GresoSkipProbability(z, 0.5), skip[z]) << z;
}

TEST(PromptSelection, RecordsCountTheLastGroupsInARow) {
  const PromptRecord record = After({{kWrong, kWrong}, {kCorrect, kCorrect}, {kCorrect, kCorrect}});
  EXPECT_EQ(record, (PromptRecord{.easy_in_a_row = 2,
                                  .hard_in_a_row = 0,
                                  .last_constant = true,
                                  .last_pass = 2,
                                  .correct = 4,
                                  .wrong = 2}));
  const PromptRecord mixed = After({{kWrong, kWrong}, {kCorrect, kWrong}});
  EXPECT_EQ(mixed, (PromptRecord{.easy_in_a_row = 0,
                                 .hard_in_a_row = 0,
                                 .last_constant = false,
                                 .last_pass = 1,
                                 .correct = 1,
                                 .wrong = 3}));
}

TEST(PromptSelection, UnscorableCompletionsAreNotRecorded) {
  EXPECT_EQ(After({{kWrong, kUnscorable, kWrong}}), (PromptRecord{.easy_in_a_row = 0,
                                                                  .hard_in_a_row = 1,
                                                                  .last_constant = true,
                                                                  .last_pass = 0,
                                                                  .correct = 0,
                                                                  .wrong = 2}));
  const PromptRecord kept = After({{kWrong, kWrong}, {kUnscorable, kUnscorable}});
  EXPECT_EQ(kept.hard_in_a_row, 1);
  EXPECT_EQ(kept.last_pass, 1u);
}

TEST(PromptSelection, OlderGroupsDecay) {
  const PromptRecord record =
      After({{kCorrect, kCorrect}, {kCorrect, kWrong}, {kWrong, kWrong}}, 0.5);
  EXPECT_DOUBLE_EQ(record.correct, 1.0);  // (2 * .5 + 1) * .5
  EXPECT_DOUBLE_EQ(record.wrong, 2.5);    // (0 * .5 + 1) * .5 + 2
}

// Released code: move by .01, down where the share has reached its target; targets .25/3 and
// .25*2/3; bounds [.05, .95].
TEST(PromptSelection, GresoBasesFollowTheSharesOfConstantGroups) {
  CollapseCounts step{
      .groups = 12, .all_correct = 1, .all_wrong = 1, .mixed = 10};  // shares 1/12 = .25/3
  GresoBases bases = AdaptGreso({0.5, 0.5}, step, 0.25);
  EXPECT_DOUBLE_EQ(bases.easy, 0.49);
  EXPECT_DOUBLE_EQ(bases.hard, 0.51);
  step = {.groups = 10, .all_correct = 10};
  for (int i = 0; i < 100; ++i) bases = AdaptGreso(bases, step, 0.25);
  EXPECT_EQ(bases, (GresoBases{0.05, 0.95}));
  EXPECT_EQ(AdaptGreso({0.3, 0.4}, {.groups = 2, .unscorable = 2}, 0.25), (GresoBases{0.3, 0.4}));
}

TEST(PromptSelection, GresoNamesTheReason) {
  EXPECT_EQ(GresoSkips({.easy_in_a_row = 1}, {0.5, 0.5}, 0.49), SkipReason::kEasy);
  EXPECT_EQ(GresoSkips({.easy_in_a_row = 1}, {0.5, 0.5}, 0.51), std::nullopt);
  EXPECT_EQ(GresoSkips({.hard_in_a_row = 2}, {0.5, 0.1}, 0.98), SkipReason::kHard);
  EXPECT_EQ(GresoSkips({}, {0.5, 0.5}, 0.0), std::nullopt);
}

TEST(PromptSelection, GresoDrawsWithTheProbabilityThatItStates) {
  const GresoBases bases{0.5, 0.75};
  for (const PromptRecord& record :
       {PromptRecord{}, PromptRecord{.easy_in_a_row = 1}, PromptRecord{.easy_in_a_row = 30},
        PromptRecord{.hard_in_a_row = 2}}) {
    constexpr int kNumbers = 10000;
    int drawn = 0;
    for (int i = 0; i < kNumbers; ++i)
      drawn += GresoSkips(record, bases, (i + 0.5) / kNumbers) ? 0 : 1;
    EXPECT_NEAR(GresoDrawProbability(record, bases), 1.0 * drawn / kNumbers, 1.0 / kNumbers);
  }
}

TEST(PromptSelection, AConstantPromptRestsForItsPasses) {
  const PromptRecord record{.last_constant = true, .last_pass = 4};
  EXPECT_TRUE(SpeedSkips(record, 5, 2));
  EXPECT_TRUE(SpeedSkips(record, 6, 2));
  EXPECT_FALSE(SpeedSkips(record, 7, 2));
  EXPECT_FALSE(SpeedSkips({.last_constant = false, .last_pass = 4}, 5, 2));
}

// Mean a / (a + b), variance a b / ((a + b)^2 (a + b + 1)).
TEST(PromptSelection, BetaVariatesHaveTheMomentsOfTheirDistribution) {
  constexpr int kDraws = 40000;
  for (const auto& [a, b] : {std::pair{1.0, 1.0}, {3.0, 1.0}, {2.5, 7.5}, {200.0, 100.0}}) {
    double sum = 0, squares = 0;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      const double x = SampleBeta(a, b, {5, i});
      ASSERT_TRUE(x > 0 && x < 1);
      sum += x;
      squares += x * x;
    }
    const double mean = a / (a + b), variance = mean * (1 - mean) / (a + b + 1);
    EXPECT_NEAR(sum / kDraws, mean, 4 * std::sqrt(variance / kDraws)) << a << " " << b;
    EXPECT_NEAR(squares / kDraws - sum / kDraws * sum / kDraws, variance, 0.05 * variance)
        << a << " " << b;
  }
  EXPECT_EQ(SampleBeta(2, 3, {1, 1}), SampleBeta(2, 3, {1, 1}));
  EXPECT_NE(SampleBeta(2, 3, {1, 1}), SampleBeta(2, 3, {1, 2}));
}

TEST(PromptSelection, TheNearestRateIsTheFirstOfEquals) {
  const double rates[] = {0.1, 0.6, 0.4, 0.9};
  EXPECT_EQ(NearestRate(rates, 0.5), 1u);
  EXPECT_EQ(NearestRate(rates, 1.0), 3u);
}

}  // namespace
}  // namespace buttress
