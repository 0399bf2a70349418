#include "cli/compare/eval_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EvalComparisonTest : public ::testing::Test {
 protected:
  // A completion is right ('1'), wrong ('0') or unscorable ('x'); a text for each prompt.
  std::string Write(const std::string& name, const std::vector<std::string>& prompts,
                    const std::string& digest = "aa", double temperature = 0) {
    const std::string path = JoinPath(dir_.path(), name);
    const auto file = EvalFile::Open(path, {{"model", "models/" + name},
                                            {"prompts", "p.jsonl"},
                                            {"prompts_sha256", digest},
                                            {"temperature", temperature}});
    EXPECT_TRUE(file.ok()) << file.status().message();
    for (std::size_t row = 0; row < prompts.size(); ++row) {
      EvalPrompt prompt;
      prompt.row = static_cast<std::int64_t>(row);
      for (const char digit : prompts[row]) {
        const Outcome outcome = digit == '1'   ? Outcome::kCorrect
                                : digit == '0' ? Outcome::kWrong
                                               : Outcome::kUnscorable;
        prompt.completions.push_back({outcome, std::string(1, digit), 0, 10, false});
      }
      EXPECT_TRUE((*file)->Append(prompt, 1).ok());
    }
    return path;
  }

  const TempDir dir_;
};

// `both` prompts that both get right, and those that only the first or the second does.
std::vector<std::string> RightIn(bool second, int both, int only_first, int only_second) {
  std::vector<std::string> prompts(static_cast<std::size_t>(both), "1");
  for (int i = 0; i < only_first; ++i) prompts.emplace_back(second ? "0" : "1");
  for (int i = 0; i < only_second; ++i) prompts.emplace_back(second ? "1" : "0");
  return prompts;
}

TEST_F(EvalComparisonTest, OneCompletionOfEachPromptIsMcNemarsTest) {
  const auto found = CompareEvals(
      {Write("a", RightIn(false, 50, 10, 25)), Write("b", RightIn(true, 50, 10, 25), "aa", 0.5)});
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->rates.size(), 1U);
  const auto& difference = found->rates[0].differences[0];
  ASSERT_TRUE(difference);
  EXPECT_NEAR(difference->change.difference, 15.0 / 85, 1e-12);
  EXPECT_NEAR(difference->p, 0.0166738478, 1e-9);  // tests/golden/paired_test.json
  EXPECT_EQ(difference->only_first, 10);
  EXPECT_EQ(difference->only_second, 25);
  EXPECT_THAT(EvalComparisonText(*found),
              AllOf(HasSubstr("temperature: 0.0 | 0.5"), HasSubstr("B minus A"),
                    HasSubstr("+17.6 % ("), HasSubstr("10 prompts are better in A, 25 in B")));
  const auto json = EvalComparisonJson(*found);
  EXPECT_EQ(json["prompts"], 85);
  EXPECT_EQ(json["rates"][0]["differences"][0]["only_second"], 25);
}

TEST_F(EvalComparisonTest, RatesOfSeveralCompletionsAreOfThePromptsThatAllHave) {
  const auto found =
      CompareEvals({Write("a", {"1100", "0000", "1000", "1111"}),
                    Write("b", {"1111", "0000", "11x0"}), Write("c", {"10", "01", "11"})});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->prompts, 3);
  ASSERT_EQ(found->rates.size(), 3U);  // accuracy, pass@2, maj@2
  EXPECT_NEAR(found->rates[0].of[0].mean, (0.5 + 0 + 0.25) / 3, 1e-12);
  EXPECT_NEAR(found->rates[0].of[1].mean, (1 + 0 + 2.0 / 3) / 3, 1e-12);
  EXPECT_EQ(found->rates[1].Label(), "pass@2");
  EXPECT_NEAR(found->rates[1].of[0].mean, (5.0 / 6 + 0 + 0.5) / 3, 1e-12);
  EXPECT_EQ(found->rates[2].differences.size(), 2U);
  EXPECT_THAT(EvalComparisonText(*found), HasSubstr("3 prompts that all have"));
}

TEST_F(EvalComparisonTest, ThePageHasAPlotOfEachResult) {
  const std::string a = Write("a<b>", {"1100", "0000"}), b = Write("b", {"1111", "0010"});
  EXPECT_THAT(EvalComparisonHtml(*CompareEvals({a, b})),
              AllOf(HasSubstr("k = 4"), HasSubstr("stroke-dasharray"), HasSubstr("#0969da"),
                    HasSubstr("#cf222e"), HasSubstr("pass@4"), HasSubstr("a&lt;b&gt;"),
                    Not(HasSubstr("a<b>"))));
  EXPECT_THAT(EvalComparisonHtml(*CompareEvals({Write("one", {"1", "0"})})),
              AllOf(HasSubstr("accuracy</text>"), Not(HasSubstr("nan"))));
}

TEST_F(EvalComparisonTest, WhatCannotBeComparedIsNamed) {
  const std::string a = Write("a", {"1"});
  EXPECT_THAT(CompareEvals({a, Write("b", {"1"}, "bb")}).status().message(),
              AllOf(HasSubstr("whose SHA-256 differ"), HasSubstr("p.jsonl")));
  EXPECT_THAT(CompareEvals({a, Write("c", {})}).status().message(), HasSubstr("no prompt yet"));
  const std::string other = JoinPath(dir_.path(), "other");
  ASSERT_TRUE(WriteFileAtomic(other, "text\n").ok());
  EXPECT_THAT(CompareEvals({other}).status().message(), HasSubstr("has no results"));
}

}  // namespace
}  // namespace buttress
