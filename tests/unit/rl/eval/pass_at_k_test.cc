#include "lib/rl/eval/pass_at_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

TEST(PassAtKTest, GivesTheTabulatedValues) {
  struct Row {
    std::int64_t n, c, k;
    double expected;
  };

  for (const auto& [n, c, k, expected] : {Row{8, 1, 1, .125},
                                          {8, 1, 4, .5},
                                          {8, 3, 4, .928571},
                                          {8, 5, 4, 1},
                                          {16, 2, 8, .766667},
                                          {256, 3, 64, .579782}}) {
    EXPECT_NEAR(PassAtK({c, n}, k), expected, 5e-7) << n << " " << c << " " << k;
  }
}

TEST(PassAtKTest, NeverAndAlwaysAreExact) {
  EXPECT_EQ(PassAtK({0, 256}, 256), 0.0);
  EXPECT_EQ(PassAtK({256, 256}, 1), 1.0);
  EXPECT_EQ(PassAtK({1, 256}, 256), 1.0);
}

TEST(MeanOverTest, ZeroOfThirtyIsNotCertainlyZero) {
  const Estimate never = MeanOver(std::vector<double>(30, 0.0));
  EXPECT_EQ(never.low, 0);
  EXPECT_NEAR(never.high, 0.1135, 1e-4);  // z^2 / (n + z^2)
  const Estimate always = MeanOver(std::vector<double>(30, 1.0));
  EXPECT_NEAR(always.low, 1 - 0.1135, 1e-4);
  EXPECT_EQ(always.high, 1);
}

TEST(MeanOverTest, IsWilsonsIntervalForRightAndWrong) {
  std::vector<double> values(100, 0.0);
  std::fill(values.begin(), values.begin() + 20, 1.0);
  const Estimate estimate = MeanOver(values);
  EXPECT_NEAR(estimate.mean, 0.2, 1e-15);
  EXPECT_NEAR(estimate.low, 0.1334, 2e-4);  // 20 of 100
  EXPECT_NEAR(estimate.high, 0.2888, 2e-4);
}

TEST(MeanOverTest, PromptsThatAgreeGiveANarrowerInterval) {
  const Estimate alike = MeanOver(std::vector<double>(50, 0.5));
  EXPECT_LT(alike.high - alike.low, 0.05);
  EXPECT_GT(alike.high - alike.low, 0);
  EXPECT_EQ(MeanOver({}).high, 1);
  EXPECT_LT(MeanOver(std::vector<double>{1}).low, 0.3);  // one prompt says little
}

TEST(MajAtKTest, AgreesWithTheEnumerationOfEveryDraw) {
  const auto text = ReadFile(std::string(BUTTRESS_GOLDEN) + "/pass_at_k.json");
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto rows = nlohmann::json::parse(*text);
  ASSERT_GT(rows.size(), 50U);
  for (const auto& row : rows) {
    std::vector<AnswerVotes> answers;
    for (const auto& votes : row["correct"]) answers.push_back({votes.get<std::int64_t>(), true});
    for (const auto& votes : row["wrong"]) answers.push_back({votes.get<std::int64_t>(), false});
    Successes successes{0, row["blank"].get<std::int64_t>()};
    for (const AnswerVotes& answer : answers) {
      successes.scored += answer.count;
      successes.correct += answer.correct ? answer.count : 0;
    }
    const auto k = row["k"].get<std::int64_t>();
    EXPECT_NEAR(MajAtK(answers, row["blank"].get<std::int64_t>(), k), row["maj"].get<double>(),
                1e-14)
        << row.dump();
    EXPECT_NEAR(PassAtK(successes, k), row["pass"].get<double>(), 1e-14) << row.dump();
  }
}

TEST(MajAtKTest, OfAllCompletionsIsTheirPlurality) {
  EXPECT_NEAR(MajAtK(std::vector<AnswerVotes>{{129, true}, {127, false}}, 0, 256), 1.0, 1e-12);
  EXPECT_EQ(MajAtK(std::vector<AnswerVotes>{{127, true}, {129, false}}, 0, 256), 0.0);
  EXPECT_NEAR(MajAtK(std::vector<AnswerVotes>{{100, true}, {100, false}}, 56, 256), 0.5, 1e-12);
  EXPECT_EQ(MajAtK(std::vector<AnswerVotes>{}, 4, 4), 0.0);
}

TEST(MajAtKTest, OfOneCompletionIsTheAccuracy) {
  EXPECT_DOUBLE_EQ(MajAtK(std::vector<AnswerVotes>{{100, true}, {300, false}, {20, true}}, 80, 1),
                   120.0 / 500.0);
}

TEST(MajAtKTest, HoldsForManyDifferentAnswers) {
  // Every completion has its own answer: all k drawn tie, and one is chosen at random.
  std::vector<AnswerVotes> answers(256, AnswerVotes{1, false});
  for (int i = 0; i < 64; ++i) answers[static_cast<std::size_t>(i)].correct = true;
  EXPECT_NEAR(MajAtK(answers, 0, 64), 0.25, 1e-12);
}

}  // namespace
}  // namespace buttress
