#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/base/os/file.h"
#include "lib/verify/verifier.h"
#include "tests/support/datasets.h"

namespace buttress::number_test {
namespace {

Verdict Judge(std::string_view name, std::string_view response, std::string_view answer,
              bool truncated = false) {
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier(name, RewardConfig{});
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return (*verifier)->Verify({{}, response, answer, {}, truncated});
}

struct Case {
  std::string_view response;
  std::string_view given;  // empty: none found
};

TEST(Number, FindsTheFinalNumber) {
  const Case cases[] = {
      {"12", "12"},
      {"3 apples and 4 pears make 7.", "7"},
      {"#### 18", "18"},
      {"####18", "18"},
      {"#### $1,234,567.50", "2469135/2"},
      {"#### 5 and later 6", ""},
      {"#### 5\n\n#### 6", "6"},
      {"#### Step 2: add 3\nThe total is 40", "40"},
      {"#### -3", "-3"},
      {"#### −3", "-3"},
      {"#### -$3", "-3"},
      {"#### $-3", "-3"},
      {"so \\boxed{42} as 6 * 7", "42"},
      {"\\boxed{1} then \\boxed{2}", "2"},
      {"\\boxed{\ufeff7}", "7"},
      {"\\boxed{1} then \\boxed{2", "1"},
      {"\\boxed{\\text{it is } 1{,}0}", "\\text{it is } 1{,}0"},
      {"\\boxed{\\frac{1}{2}}", "1/2"},
      {"\\boxed{50\\%}", "50"},
      {"\\boxed{}, 7", ""},
      {"The answer is 12 because 3*4", "12"},
      {"ANSWER: **12**", "12"},
      {"The answer is 1. Answer: 2", "2"},
      {"Answer: 2. The answer is 1.", "1"},
      {"The answer is clear. There are 4.", "4"},
      {"8-5", "3"},
      {"it fell to -5", "-5"},
      {"1,234", "1234"},
      {"1,23", ""},
      {"1,2345", ""},
      {"12,345.", "12345"},
      {"0.50", "1/2"},
      {".5", "1/2"},
      {"12.", "12"},
      {"3/4", "3/4"},
      {"3/0", ""},
      {"1.5e3", "1500"},
      {"10^3", "1000"},
      {"3 1/2", "7/2"},
      {"ten", "10"},
      {"So she has ten apples.", "10"},
      {"The answer is 2.5 \\times 10^3.", "2500"},
      {"It is not 5 but 6.", "6"},
      {"It isn't 5.", ""},
      {"5 or 6", ""},
      {"It is less than 10.", ""},
      {"It is about 10.", ""},
      {"<answer>\\frac{1}{2}</answer>", "1/2"},
      {"<think>7</think> 8", "8"},
      {"x = 5", "5"},
      {"#### 6 or 7\nThe answer is 6.", ""},
      {"007", "7"},
      {"-0", "0"},
      {"none at all", ""},
      {"", ""},
      {"....,,,,////----$$$$", ""},
  };
  for (const Case& c : cases)
    EXPECT_EQ(Judge("number", c.response, "99").given, c.given) << c.response;
}

TEST(Number, ComparesExactly) {
  EXPECT_EQ(Judge("number", "0.1", "0.10").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("number", "0.1", "0.1000000000000000001").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("number", "12345678901234567890123", "12345678901234567890124").outcome,
            Outcome::kWrong);
  EXPECT_EQ(Judge("number", "1/3", "0.333").outcome, Outcome::kWrong);
}

TEST(Number, AComputationIsNoNumber) {
  EXPECT_EQ(Judge("number", "\\boxed{123 \\cdot 456}", "56088").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("number", "8-5", "3").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("number", "2 + 3 = 5", "5").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("number", "6/4", "3/2").outcome, Outcome::kCorrect);
}

TEST(Number, TheSettingSaysWhichSignSeparatesDecimals) {
  RewardConfig config;
  config.math.decimal = DecimalMark::kComma;
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("number", config);
  ASSERT_TRUE(verifier.ok());
  for (const auto& [response, value] :
       {std::pair("3,5", "7/2"), {"The answer is 1.234,5.", "2469/2"}, {"\\boxed{3.5}", "7/2"}})
    EXPECT_EQ((*verifier)->Verify({{}, response, "99", {}, false}).given, value) << response;
}

// Quadratic time would exceed the time limit of the test.
TEST(Number, LongAdversarialResponsesTakeLinearTime) {
  for (const std::string piece :
       {"1,", "1.", "1/", "-", "1,111", "\\boxed{", "{", "answer is ", "####", "$-1", ".1."}) {
    std::string response;
    while (response.size() < (1U << 20)) response += piece;
    for (const bool truncated : {false, true}) {
      EXPECT_EQ(Judge("number", response, "7", truncated).outcome, Outcome::kWrong) << piece;
    }
  }
}

TEST(Number, HugeNumbersAreWrong) {
  const std::string digits(1 << 20, '7');
  EXPECT_EQ(Judge("number", digits, "7").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("number", "1/" + digits, "7").outcome, Outcome::kWrong);
}

TEST(Number, ANumberAtTheEndOfATruncatedResponseDoesNotCount) {
  EXPECT_EQ(Judge("number", "#### 12", "12", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("number", "#### 12.", "12", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("number", "3 * 4 is 12 and", "12", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("number", "#### 12\n", "12", /*truncated=*/true).outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("number", "\\boxed{12}", "12", /*truncated=*/true).outcome, Outcome::kCorrect);
}

TEST(Exact, ComparesTrimmedText) {
  EXPECT_EQ(Judge("exact", "\n a b ", "a b").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("exact", "a  b", "a b").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("exact", "a b", "a b", /*truncated=*/true).outcome, Outcome::kWrong);
}

TEST(Arithmetic, AcceptsOnlyAResponseThatIsTheInteger) {
  EXPECT_EQ(Judge("arithmetic", " 0046\n", "46").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("arithmetic", "-46", "-46").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("arithmetic", "it is <answer>46</answer>", "46").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("arithmetic", "46.0", "46").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("arithmetic", "46 47", "46").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("arithmetic", "--46", "46").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("arithmetic", "46", "46", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("arithmetic", "46", "4.6").outcome, Outcome::kUnscorable);
}

// Model outputs that the authors of GSM8K labelled.
TEST(Number, AgreesWithTheLabelsOfGsm8kModelSolutions) {
  const std::string path = DataSetPath("gsm8k/example_model_solutions.jsonl");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is absent; set BUTTRESS_DATA to the folder of the data sets";
  const Result<std::string> text = ReadFile(path);
  ASSERT_TRUE(text.ok());
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("number", RewardConfig{});
  std::istringstream lines(*text);
  int judged = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    const auto answer = row["ground_truth"].get<std::string>();
    for (const char* model :
         {"6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"}) {
      const auto solution = row[model]["solution"].get<std::string>();
      const Verdict verdict = (*verifier)->Verify({{}, solution, answer, {}, false});
      const Outcome label =
          row[model]["is_correct"].get<bool>() ? Outcome::kCorrect : Outcome::kWrong;
      EXPECT_EQ(verdict.outcome, label) << solution << "\n---- " << answer << "\n---- given "
                                        << verdict.given << " gold " << verdict.gold;
      ++judged;
    }
  }
  EXPECT_EQ(judged, 5276);
}

}  // namespace
}  // namespace buttress::number_test
