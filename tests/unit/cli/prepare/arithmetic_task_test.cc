#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "cli/prepare/task.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

TEST(ArithmeticTask, AnswersAreCorrect) {
  const auto task = *MakeArithmeticTask({.digits = 3, .operators = "+-*"});
  const auto verifier = *MakeVerifier("arithmetic", RewardConfig{});
  RandomStream random({.seed = 1, .stream = 0});
  for (int i = 0; i < 500; ++i) {
    const TaskProblem problem = *task->Draw(random);
    long left = 0;
    long right = 0;
    char op = 0;
    char equals = 0;
    ASSERT_EQ(std::sscanf(problem.prompt.c_str(), "%3ld%c%3ld%c", &left, &op, &right, &equals), 4)
        << problem.prompt;
    const long expected = op == '+' ? left + right : op == '-' ? left - right : left * right;
    EXPECT_EQ(problem.answer, std::to_string(expected)) << problem.prompt;
    EXPECT_EQ(problem.guess.size(), problem.solution.size());
    EXPECT_EQ(verifier->Verify({{}, problem.solution, problem.answer, {}, false}).outcome,
              Outcome::kCorrect);
  }
}

TEST(ArithmeticTask, CanonicalFormJoinsSwappedOperandsOfSumsOnly) {
  const auto task = *MakeArithmeticTask({.digits = 1, .operators = "+-"});
  RandomStream random({.seed = 2, .stream = 0});
  for (int i = 0; i < 500; ++i) {
    const TaskProblem problem = *task->Draw(random);
    if (problem.prompt[1] == '-') {
      EXPECT_EQ(problem.canonical + "=", problem.prompt);
    } else {
      EXPECT_LE(problem.canonical[0], problem.canonical[2]);
    }
  }
}

TEST(ArithmeticTask, ErrorsNameOptionsOutOfRange) {
  EXPECT_THAT(MakeArithmeticTask({.digits = 0}).status().message(), HasSubstr("--digits = 0"));
  EXPECT_THAT(MakeArithmeticTask({.digits = 10}).status().message(), HasSubstr("--digits = 10"));
  EXPECT_THAT(MakeArithmeticTask({.digits = 2, .operators = "/"}).status().message(),
              HasSubstr("--operators = '/'"));
}

}  // namespace
}  // namespace buttress
