#include "lib/measure/eval_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

void Add(EvalScores& scores, std::int64_t row, Outcome outcome, const std::string& answer) {
  EvalCompletion completion;
  completion.outcome = outcome;
  completion.answer = answer;
  scores.Add(row, completion);
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

class EvalRecordTest : public ::testing::Test {
 protected:
  EvalRecordTest() {
    EvalPrompt& second = prompts_.emplace_back();
    second.row = 1;
    second.completions = {{Outcome::kCorrect, "7", 1.5, 3, false},
                          {Outcome::kUnscorable, "", 0, 16, true}};
    EvalPrompt& first = prompts_.emplace_back();
    first.completions = {{Outcome::kWrong, "\"8\"\n", -0.25, 4, false},
                         {Outcome::kWrong, "", 0, 16, true}};
  }

  StatusCode Opens(const nlohmann::ordered_json& settings) {
    const auto file = EvalFile::Open(path_, settings);
    message_ = file.status().message();
    return file.status().code();
  }

  const TempDir dir_;
  const std::string path_ = JoinPath(dir_.path(), "results.jsonl");
  const nlohmann::ordered_json settings_ = {{"model", "m"}, {"temperature", 0.7}};
  std::vector<EvalPrompt> prompts_;
  std::string message_;
};

TEST_F(EvalRecordTest, WhatWasAppendedIsReadAndALineThatWasCutOffIsNot) {
  {
    const auto file = *EvalFile::Open(path_, settings_);
    EXPECT_TRUE(file->found().prompts.empty());
    ASSERT_TRUE(file->Append(prompts_[0], 1.5).ok());
    ASSERT_TRUE(file->Append(prompts_[1], 2.5).ok());
    EXPECT_EQ(Opens(settings_), StatusCode::kFailedPrecondition) << "one process writes to it";
  }
  const std::string text = *ReadFile(path_);
  for (const std::size_t cut : {0, 1, 40}) {
    ASSERT_TRUE(WriteFileAtomic(path_, text.substr(0, text.size() - cut)).ok());
    const auto read = ReadEvalRecord(path_);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->settings, settings_);
    EXPECT_EQ(read->seconds, cut == 0 ? 2.5 : 1.5);
    auto expected = prompts_;
    if (cut > 0) expected.pop_back();
    EXPECT_EQ(read->prompts, expected);
    const auto file = EvalFile::Open(path_, settings_);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ((*file)->found().prompts, expected);
    if (cut > 0) {
      EXPECT_TRUE((*file)->Append(prompts_[1], 2.5).ok());
    }
    EXPECT_EQ(*ReadFile(path_), text);
  }
  const EvalResult totals = ReadEvalRecord(path_)->Totals();
  EXPECT_EQ(totals.prompts, 2);
  EXPECT_EQ(totals.completions, 4);
  EXPECT_EQ(totals.correct, 1);
  EXPECT_EQ(totals.wrong, 2);
  EXPECT_EQ(totals.unscorable, 1);
  EXPECT_EQ(totals.truncated, 2);
  EXPECT_EQ(totals.tokens, 39);
  EXPECT_EQ(totals.raw_reward, 1.25);
}

TEST_F(EvalRecordTest, AFileOfOtherSettingsOrOfSomethingElseIsRefusedAndStays) {
  ASSERT_EQ(Opens(settings_), StatusCode::kOk);
  EXPECT_EQ(Opens({{"model", "m"}, {"temperature", 1.0}, {"seed", 3}}),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(message_, ::testing::HasSubstr("temperature is 0.7 there and 1.0 here, seed is null "
                                             "there and 3 here; name another file"));
  for (const char* other : {"{\"prompt\": \"1+1\"}\n", "no JSON", "\n"}) {
    ASSERT_TRUE(WriteFileAtomic(path_, other).ok());
    EXPECT_EQ(Opens(settings_), StatusCode::kInvalidArgument);
    EXPECT_EQ(*ReadFile(path_), other);
    EXPECT_EQ(ReadEvalRecord(path_).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(ReadEvalRecord(path_ + "x").status().code(), StatusCode::kNotFound);
}

TEST_F(EvalRecordTest, ADamagedLineIsNamed) {
  ASSERT_EQ(Opens(settings_), StatusCode::kOk);
  const std::string begin = *ReadFile(path_);
  const std::string row = R"({"row": 0, "seconds": 1, "completions": []})";
  for (const std::string& line :
       {std::string("{}"), std::string("x"),
        R"({"row": -1, "seconds": 1, "completions": []})" + row, row + "\n" + row,
        std::string(R"({"row": 0, "seconds": 1, "completions": [{"outcome": "right"}]})")}) {
    ASSERT_TRUE(WriteFileAtomic(path_, begin + line + "\n").ok());
    EXPECT_EQ(Opens(settings_), StatusCode::kDataLoss) << line;
    EXPECT_THAT(message_, ::testing::HasSubstr(line.starts_with(row) ? ":3: " : ":2: "));
  }
}

}  // namespace
}  // namespace buttress
