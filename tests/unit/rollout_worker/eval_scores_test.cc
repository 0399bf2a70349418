#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "rollout_worker/evaluation/eval.h"

namespace buttress {
namespace {

void Add(EvalScores& scores, std::int64_t row, Outcome outcome, const std::string& answer) {
  Verdict verdict;
  verdict.outcome = outcome;
  verdict.given = answer;
  scores.Add(row, verdict);
}

TEST(EvalScoresTest, RatesAreMeansOverPrompts) {
  EvalScores scores;
  for (int i = 0; i < 8; ++i) {
    Add(scores, 0, i < 3 ? Outcome::kCorrect : Outcome::kWrong,
        i < 3 ? "7" : "x" + std::to_string(i));
    Add(scores, 1, i < 1 ? Outcome::kCorrect : Outcome::kWrong, i < 1 ? "7" : "8");
  }
  EXPECT_NEAR(scores.PassAt(4).mean, (13.0 / 14 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(scores.Avg().mean, 0.25, 1e-12);    // (3/8 + 1/8) / 2
  EXPECT_NEAR(scores.MajAt(8).mean, 0.5, 1e-12);  // 7 leads with three votes; 8 leads with seven
  EXPECT_NEAR(scores.MajAt(1).mean, scores.Avg().mean, 1e-12);
  EXPECT_NEAR(scores.PassAt(1).mean, scores.Avg().mean, 1e-12);
}

TEST(EvalScoresTest, APromptWithTooFewScoredCompletionsIsExcluded) {
  EvalScores scores;
  for (int i = 0; i < 4; ++i) Add(scores, 0, Outcome::kCorrect, "1");
  for (int i = 0; i < 3; ++i) Add(scores, 1, Outcome::kWrong, "");
  Add(scores, 1, Outcome::kUnscorable, "");
  EXPECT_EQ(scores.PassAt(4).prompts, 1);
  EXPECT_EQ(scores.PassAt(4).mean, 1);
  EXPECT_EQ(scores.PassAt(3).prompts, 2);
  EXPECT_EQ(scores.MajAt(3).mean, 0.5);
  EXPECT_EQ(scores.Avg().prompts, 2);
}

TEST(EvalScoresTest, ARowWithoutAVerdictHasNoShare) {
  EvalScores scores;
  EXPECT_TRUE(scores.ByRow().empty());
  Add(scores, 0, Outcome::kCorrect, "1");
  Add(scores, 0, Outcome::kWrong, "2");
  Add(scores, 2, Outcome::kUnscorable, "");
  Add(scores, 3, Outcome::kCorrect, "1");
  const std::vector<double> shares = scores.ByRow();
  ASSERT_EQ(shares.size(), 4);
  EXPECT_EQ(shares[0], 0.5);
  EXPECT_TRUE(std::isnan(shares[1]));
  EXPECT_TRUE(std::isnan(shares[2]));
  EXPECT_EQ(shares[3], 1);
}

TEST(EvalScoresTest, TheOutcomeOfAnAnswerIsTheMajorityOfItsCompletions) {
  EvalScores scores;
  Add(scores, 0, Outcome::kCorrect, "5");
  Add(scores, 0, Outcome::kCorrect, "5");
  Add(scores, 0, Outcome::kWrong, "5");
  EXPECT_EQ(scores.MajAt(3).mean, 1);
}

TEST(EvalScoresTest, TheIntervalIsThatOfWilsonOverPrompts) {
  EvalScores scores;
  for (std::int64_t row = 0; row < 100; ++row)
    Add(scores, row, row < 36 ? Outcome::kCorrect : Outcome::kWrong, "1");
  const Estimate estimate = scores.PassAt(1);
  EXPECT_DOUBLE_EQ(estimate.mean, 0.36);
  // statsmodels: proportion_confint(36, 100, method="wilson")
  EXPECT_NEAR(estimate.low, 0.2727122, 1e-6);
  EXPECT_NEAR(estimate.high, 0.4576460, 1e-6);
  EvalScores one;
  Add(one, 0, Outcome::kCorrect, "1");
  EXPECT_NEAR(one.PassAt(1).low, 0.2065493, 1e-6);
  EXPECT_EQ(one.PassAt(1).high, 1);
}

TEST(EvalScoresTest, TheUsualKsArePowersOfTwoAndAll) {
  EXPECT_EQ(PowersUpTo(1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(PowersUpTo(8), (std::vector<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(PowersUpTo(10), (std::vector<std::int64_t>{1, 2, 4, 8, 10}));
}

}  // namespace
}  // namespace buttress
