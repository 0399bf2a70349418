// What math, number and choice say they read, and why they judge so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/verify/verifier.h"

namespace buttress::explain_test {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string_view verifier, response, answer;
  Outcome outcome;
  std::string_view why;
};

using enum Outcome;

constexpr Case kCases[] = {
    {"math", "\\boxed{5}", "5", kCorrect, "read alike"},
    {"math", "\\boxed{0.5}", "\\frac12", kCorrect, "the same value"},
    {"math", "\\boxed{0.333}", "1/3", kCorrect, "in mode lenient"},
    {"math", "\\boxed{5\\text{ cm}}", "5", kCorrect, "the unit of the response is ignored"},
    {"math", "\\boxed{5}", "5\\text{ cm}", kCorrect, "the unit of the reference may be missing"},
    {"math", "The answer is 5 or 6.", "5", kWrong, "hedges between 5 and 6"},
    {"math", "Maybe 5.", "5", kWrong, "doubts 5"},
    {"math", "It isn't 5.", "5", kWrong, "denies 5"},
    {"math", "So it is at least 5.", "5", kWrong, "bounds or compares 5"},
    {"math", "Is it 5?", "5", kWrong, "asks about 5"},
    {"math", "The answer is 5 if Tom stays.", "5", kWrong, "5 under a condition"},
    {"math", "It is 5 times 3.", "5", kWrong, "computes with 3"},
    {"math", "The answer is about 5.", "5", kWrong, "approximation"},
    {"math", "So we get \\boxed{5", "5", kWrong, "unclosed \\boxed"},
    {"math", "\\boxed{3,5}", "7/2", kWrong, "run.reward.math.decimal: comma"},
    {"math", "\\boxed{100,200}", "100, 200", kCorrect, "another reading of its comma"},
    {"math", "\\boxed{123 \\cdot 456}", "56088", kWrong, "restates the question"},
    {"math", "\\boxed{5}. The answer is 7.", "5", kWrong, "gives 5 and later, by 'answer:', 7"},
    {"math", "\\boxed{5\\text{ m}}", "5\\text{ cm}", kWrong, "the units cm and m differ"},
    {"math", "\\boxed{(2,1)}", "(1,2)", kWrong, "in another order"},
    {"math", "\\boxed{[1,2)}", "[1,2]", kWrong, "the brackets [], the response [)"},
    {"math", "\\boxed{1, 2}", "1, 2, 3", kWrong, "3 members, the response 2"},
    {"math", "\\boxed{(1,3)}", "(1,2)", kWrong, "member 2 is 2 in the reference, 3"},
    {"math", "\\boxed{x + 1}", "5", kWrong, "is a number, the response an expression"},
    {"math", "\\boxed{0.3}", "1/3", kWrong, "three significant digits"},
    {"math", "\\boxed{6}", "5", kWrong, "the values differ"},
    {"math", "", "5", kWrong, "the response is empty"},
    {"math", "\\boxed{}", "5", kWrong, "box is empty"},
    {"math", "<answer>5 or 6</answer>", "5", kWrong, "hedges between 5 and 6"},
    {"math", "When $y = 3$, it is 5.", "5", kWrong, "5 under a condition"},
    {"math", "\\boxed{AM}", "\\text{AM}", kCorrect, "the same word"},
    {"math", "It is 5. That is wrong.", "5", kWrong, "takes 5 back"},
    {"math", "I do not know.", "5", kWrong, "states no answer"},
    {"math", "\\boxed{5}", "", kUnscorable, "none found in the reference"},
    {"number", "#### 5", "#### 5", kCorrect, "the same number"},
    {"math", "So $2 + 3 = 4 + 2 = 6$.", "6", kWrong, "chain of equations is false"},
    {"number", "It is 5 or 6.", "5", kWrong, "hedges between 5 and 6"},
    {"number", "#### 2 + 3", "5", kWrong, "leaves the computation"},
    {"number", "\\boxed{x}", "5", kWrong, "the box is no number"},
    {"number", "\\boxed{5", "5", kWrong, "unclosed \\boxed"},
    {"choice", "The answer is A or B.", "B", kWrong, "hedges between A and B"},
    {"choice", "Not B.", "B", kWrong, "denies B"},
    {"choice", "The answer is (B).", "B", kCorrect, "letters are the same"},
};

TEST(Explain, SaysWhyTwoAnswersAgreeOrDiffer) {
  for (const Case& one : kCases) {
    const auto verifier = MakeVerifier(one.verifier, RewardConfig{});
    ASSERT_TRUE(verifier.ok()) << verifier.status().ToString();
    const Verdict verdict = (*verifier)->Verify({.prompt = "What is $123 \\cdot 456$?",
                                                 .response = one.response,
                                                 .answer = one.answer,
                                                 .extra_json = {},
                                                 .explain = true});
    EXPECT_EQ(verdict.outcome, one.outcome) << one.response;
    EXPECT_THAT(verdict.explanation.why, HasSubstr(std::string(one.why))) << one.response;
  }
}

TEST(Explain, NamesTheSettingThatWouldAgree) {
  const auto why = [](MathConfig math, std::string_view response, std::string_view answer) {
    RewardConfig config;
    config.math = std::move(math);
    const Verdict verdict = (*MakeVerifier("math", config))
                                ->Verify({.prompt = {},
                                          .response = response,
                                          .answer = answer,
                                          .extra_json = {},
                                          .explain = true});
    EXPECT_EQ(verdict.outcome, kWrong) << response;
    return verdict.explanation.why;
  };
  const MathConfig strict{.mode = MathMode::kStrict};
  EXPECT_THAT(why(strict, "\\boxed{3,5}", "3.5"), HasSubstr("run.reward.math.decimal: comma"));
  EXPECT_THAT(why(strict, "\\boxed{x = 5}", "5"), HasSubstr("run.reward.math.mode"));
  EXPECT_THAT(why({.anchors = {"answer:"}}, "\\boxed{5}", "5"),
              HasSubstr("run.reward.math.anchors"));
}

TEST(Explain, NamesTheTextsThatWereRead) {
  const auto verifier = MakeVerifier("math", RewardConfig{});
  VerifyRequest request{.prompt = {},
                        .response = "So it is\n#### **1,234** apples",
                        .answer = "2 + 2 = 4, so $\\boxed{\\frac{1}{2}}$.",
                        .extra_json = {}};
  EXPECT_EQ((*verifier)->Verify(request).explanation.why, "");
  request.explain = true;
  const Verdict verdict = (*verifier)->Verify(request);
  EXPECT_EQ(verdict.anchor, "####");
  EXPECT_EQ(verdict.explanation.given_text, "1,234 apples");
  EXPECT_EQ(verdict.given, "1234");
  EXPECT_EQ(verdict.explanation.gold_anchor, "boxed");
  EXPECT_EQ(verdict.explanation.gold_text, "\\frac{1}{2}");
  EXPECT_EQ(verdict.gold, "(1/2)");
}

}  // namespace
}  // namespace buttress::explain_test
