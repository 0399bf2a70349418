#include "lib/verify/audit/countdown_answers.h"

#include <gtest/gtest.h>

#include <utility>

#include "lib/base/text/random.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

Outcome JudgeExpression(const CountdownProblem& problem, const std::string& expression,
                        NumberUse use) {
  RewardConfig config;
  config.use_all = use == NumberUse::kExactlyOnce;
  const auto verifier = MakeVerifier("countdown", config);
  return (*verifier)
      ->Verify(
          {.prompt = "", .response = expression, .answer = ToJson(problem), .extra_json = "{}"})
      .outcome;
}

// A problem with a solution that goes from left to right.
CountdownProblem Solvable(std::size_t count, RandomStream& random) {
  CountdownProblem problem;
  while (true) {
    problem.numbers.clear();
    Rational value;
    for (std::size_t i = 0; i < count; ++i) {
      problem.numbers.push_back(1 + static_cast<std::int64_t>(random.Below(50)));
      const Rational number(static_cast<signed long>(problem.numbers.back()));
      const std::uint64_t op = i == 0 ? 0 : random.Below(4);
      if (op == 0) value += number;
      if (op == 1) value -= number;
      if (op == 2) value *= number;
      if (op == 3) value /= number;
    }
    if (value.get_den() != 1 || abs(value) > 1000) continue;
    problem.target = value.get_num().get_si();
    return problem;
  }
}

TEST(CountdownAnswersTest, SolutionsAndSpoiledOnesAreJudgedAsSuch) {
  RandomStream random(RandomKey{7, 0});
  for (const NumberUse use : {NumberUse::kAtMostOnce, NumberUse::kExactlyOnce}) {
    for (int i = 0; i < 200; ++i) {
      const CountdownProblem problem = Solvable(2 + static_cast<std::size_t>(i % 3), random);
      const auto solution = SolveCountdown(problem, use);
      ASSERT_TRUE(solution) << ToJson(problem);
      EXPECT_EQ(JudgeExpression(problem, *solution, use), Outcome::kCorrect)
          << ToJson(problem) << *solution;
      for (std::uint64_t turn = 0; turn < 12; ++turn) {
        const std::string spoiled = SpoiledCountdown(problem, *solution, turn);
        EXPECT_EQ(JudgeExpression(problem, spoiled, use), Outcome::kWrong)
            << ToJson(problem) << spoiled;
      }
    }
  }
}

TEST(CountdownAnswersTest, SearchesThroughFractionsAndNegativeValues) {
  EXPECT_EQ(SolveCountdown({{3, 3, 8, 8}, 24}, NumberUse::kExactlyOnce), "8/(3-(8/3))");
  EXPECT_TRUE(SolveCountdown({{1, 2, 9}, -10, "-"}, NumberUse::kExactlyOnce));
  EXPECT_EQ(SolveCountdown({{5, 8}, 8}, NumberUse::kAtMostOnce), "8");
  EXPECT_EQ(SolveCountdown({{0, 4}, 4}, NumberUse::kExactlyOnce), "0+4");
}

TEST(CountdownAnswersTest, WhatCannotBeSolvedHasNoSolution) {
  EXPECT_FALSE(SolveCountdown({{2, 3}, 7}, NumberUse::kAtMostOnce));
  EXPECT_FALSE(SolveCountdown({{5, 8}, 8}, NumberUse::kExactlyOnce));
  EXPECT_FALSE(SolveCountdown({{2, 3}, 6, "+-"}, NumberUse::kAtMostOnce));
  EXPECT_FALSE(SolveCountdown({{-2, 3}, 1}, NumberUse::kExactlyOnce));
  EXPECT_FALSE(SolveCountdown({{0, 0}, 7}, NumberUse::kAtMostOnce));
}

TEST(CountdownAnswersTest, SolvesMostProblemsOfFiveAndSixNumbers) {
  constexpr int kProblems = 40;
  RandomStream random(RandomKey{8, 0});
  for (const auto& [count, least] : {std::pair<std::size_t, int>{5, 40}, {6, 25}}) {
    for (const NumberUse use : {NumberUse::kAtMostOnce, NumberUse::kExactlyOnce}) {
      int solved = 0;
      for (int i = 0; i < kProblems; ++i)
        solved += SolveCountdown(Solvable(count, random), use) ? 1 : 0;
      EXPECT_GE(solved, least) << count;
    }
  }
}

TEST(CountdownAnswersTest, GivesUpOnLargeProblems) {
  CountdownProblem problem{.numbers = {}, .target = 1000003, .operators = "+-*/"};
  problem.numbers.assign(64, 999983);
  EXPECT_FALSE(SolveCountdown(problem, NumberUse::kAtMostOnce));
  EXPECT_FALSE(SolveCountdown(problem, NumberUse::kExactlyOnce));
}

// The number that is not the problem's is the smallest that it lacks, however many it has.
TEST(CountdownAnswersTest, ASpoiledOneMayHaveTheRightValue) {
  const CountdownProblem problem{{1, 2, 3}, 3};
  EXPECT_EQ(SpoiledCountdown(problem, "3", 0), "3+4-4");
  EXPECT_EQ(SpoiledCountdown({{1, 2}, 3, "+"}, "1+2", 5), "1+2+3-3");
}

}  // namespace
}  // namespace buttress
