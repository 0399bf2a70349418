#include "lib/verify/countdown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/verify/verifier.h"

namespace buttress::countdown_test {
namespace {

using ::testing::HasSubstr;

Verdict Judge(std::string_view response, std::string_view answer, bool use_all = false,
              bool truncated = false) {
  RewardConfig config;
  config.use_all = use_all;
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("countdown", config);
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return (*verifier)->Verify({{}, response, answer, {}, truncated});
}

TEST(Countdown, ReadsBothFormsOfAProblem) {
  const CountdownProblem problem{{7, 7, 1, 5}, 4};
  for (const char* text :
       {"7 7 1 5 > 4", " 7  7 1 5>4\n", R"({"numbers": [7, 7, 1, 5], "target": 4})",
        R"({"nums": [7,7,1,5], "target": 4})"}) {
    const Result<CountdownProblem> parsed = ParseCountdown(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().ToString();
    EXPECT_EQ(*parsed, problem) << text;
  }
  const CountdownProblem plus{.numbers = {3, 4}, .target = -7, .operators = "+"};
  EXPECT_EQ(*ParseCountdown(ToJson(plus)), plus);
}

TEST(Countdown, MalformedProblemsAreUnscorable) {
  for (const char* answer :
       {"", "4", "> 4", "7 7 > x", "7 x > 4", "7 7 > 99999999999999999999", "[7, 7]", "{",
        R"({"numbers": [7]})", R"({"numbers": [7.5], "target": 4})",
        R"({"numbers": ["7"], "target": 4})", R"({"numbers": 7, "target": 4})",
        R"({"numbers": [7], "target": "4"})", R"({"numbers": [18446744073709551615], "target": 4})",
        R"({"numbers": [], "target": 4})", R"({"numbers": [7], "target": 7, "operators": 1})"}) {
    const Verdict verdict = Judge("7", answer);
    EXPECT_EQ(verdict.outcome, Outcome::kUnscorable) << answer;
    EXPECT_THAT(verdict.unscorable_reason, HasSubstr("answer: ")) << answer;
  }
}

TEST(Countdown, CanonicalFormIgnoresOnlyTheOrderOfNumbers) {
  EXPECT_EQ(CanonicalForm({{7, 1, 7, 5}, 4}), "1 5 7 7 > 4");
  EXPECT_EQ(CanonicalForm({{5, 7, 7, 1}, 4}), "1 5 7 7 > 4");
  EXPECT_NE(CanonicalForm({{1, 57, 7}, 4}), CanonicalForm({{15, 7, 7}, 4}));
}

TEST(Countdown, TheVerdictContainsBothCanonicalForms) {
  const Verdict verdict = Judge(" ( 7 - 5 ) * 7 / 4 ", "7 7 4 5 > 3");
  EXPECT_EQ(verdict.outcome, Outcome::kWrong);
  EXPECT_EQ(verdict.given, "(7-5)*7/4 = 7/2");
  EXPECT_EQ(verdict.gold, "4 5 7 7 > 3");
}

struct Case {
  std::string_view response;
  std::string_view answer;
  Outcome at_most_once;
  Outcome exactly_once;
};

TEST(Countdown, JudgesResponses) {
  using enum Outcome;
  const Case cases[] = {
      {"7-5+7-1", "7 7 1 5 > 8", kCorrect, kCorrect},
      {"1-5+7*7-37", "7 7 1 5 > 8", kWrong, kWrong},
      {"7+1", "7 7 1 5 > 8", kCorrect, kWrong},
      {"8", "8 1 > 8", kCorrect, kWrong},
      {"7+7", "7 1 > 14", kWrong, kWrong},
      {"71", "7 1 > 71", kWrong, kWrong},
      {"-(1-7)", "7 1 > 6", kCorrect, kCorrect},
      {"7/1/7*5", "7 7 1 5 > 5", kCorrect, kCorrect},
      {"1/3*3", "1 3 3 > 1", kCorrect, kCorrect},
      {"7+1 = 8", "7 1 > 8", kCorrect, kCorrect},
      {"7+1 = 8.0", "7 1 > 8", kCorrect, kCorrect},
      {"7+1 = 9", "7 1 > 8", kWrong, kWrong},
      {"7+1 =", "7 1 > 8", kWrong, kWrong},
      {"8 = 7+1", "7 1 8 > 8", kWrong, kWrong},
      {"7+1 = 8 = 8", "7 1 > 8", kWrong, kWrong},
      {"We get 7+1", "7 1 > 8", kWrong, kWrong},
      {"We get <answer> 7+1 </answer>.", "7 1 > 8", kCorrect, kCorrect},
      {"<answer>7-1</answer> no, <answer>7+1</answer>", "7 1 > 8", kCorrect, kCorrect},
      {"<answer>7+1</answer> no, <answer>7-1</answer>", "7 1 > 8", kWrong, kWrong},
      {"<answer>7+1", "7 1 > 8", kWrong, kWrong},
      {"<answer></answer>", "7 1 > 8", kWrong, kWrong},
      {"7*1+1", R"({"numbers": [7, 1, 1], "target": 8, "operators": "+-"})", kWrong, kWrong},
      {"7+1*1", R"({"numbers": [7, 1, 1], "target": 8, "operators": "+*"})", kCorrect, kCorrect},
      {"-1+9", R"({"numbers": [9, 1], "target": 8, "operators": "+"})", kCorrect, kCorrect},
      {"", "7 1 > 8", kWrong, kWrong},
      {"\xff\xfe", "7 1 > 8", kWrong, kWrong},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Judge(c.response, c.answer).outcome, c.at_most_once) << c.response << " at most once";
    EXPECT_EQ(Judge(c.response, c.answer, /*use_all=*/true).outcome, c.exactly_once)
        << c.response << " exactly once";
  }
}

TEST(Countdown, InATruncatedResponseOnlyClosedTagsCount) {
  EXPECT_EQ(Judge("7+1", "7 1 > 8", false, /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("<answer>7+1</answer> and so", "7 1 > 8", false, /*truncated=*/true).outcome,
            Outcome::kCorrect);
}

}  // namespace
}  // namespace buttress::countdown_test
