#include "lib/rl/eval/pass_at_k.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/file.h"

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
