// The modes and anchors of run.reward.math.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "lib/config/load.h"
#include "lib/verify/verifier.h"

namespace buttress::math_settings_test {
namespace {

Verdict Judge(const MathConfig& math, std::string_view response, std::string_view answer,
              bool truncated = false, std::string_view prompt = {}) {
  RewardConfig config;
  config.math = math;
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("math", config);
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return (*verifier)->Verify({prompt, response, answer, {}, truncated});
}

constexpr std::string_view kBoth = "Answer: 3\n\\boxed{4}";

TEST(MathSettings, TheFirstAnchorInTheResponseDecides) {
  EXPECT_EQ(Judge({.anchors = {"boxed", "answer:"}}, kBoth, "4").anchor, "boxed");
  EXPECT_EQ(Judge({.anchors = {"answer:", "boxed"}}, kBoth, "4").anchor, "answer:");
  EXPECT_EQ(Judge({.anchors = {"####", "boxed"}}, kBoth, "4").anchor, "boxed");
}

TEST(MathSettings, AResponseWithoutAnAnchorIsWrong) {
  EXPECT_EQ(Judge({.anchors = {"boxed"}}, "So it is 4.", "4").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge({.anchors = {"last expression"}}, "So it is 4.", "4").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge({.anchors = {"whole"}}, "4", "4").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge({.anchors = {"whole"}}, "As we have seen before, it is 4", "4").outcome,
            Outcome::kWrong);
}

TEST(MathSettings, TheReferenceIsReadByAllAnchors) {
  EXPECT_EQ(Judge({.anchors = {"boxed"}}, "\\boxed{4}", "4").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge({.anchors = {"boxed"}}, "\\boxed{4}", "2 + 2 = 4\n#### 4").outcome,
            Outcome::kCorrect);
}

TEST(MathSettings, ADecimalCommaIsReadWhereItIsTheSetting) {
  const MathConfig comma = {.mode = MathMode::kStrict, .decimal = DecimalMark::kComma};
  EXPECT_EQ(Judge(comma, "\\boxed{3,5}", "3,5").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge(comma, "\\boxed{7/2}", "3,5").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge(comma, "Das Ergebnis ist \\boxed{1.234,5}.", "1234,50").outcome,
            Outcome::kCorrect);
  EXPECT_EQ(Judge(comma, "\\boxed{1,234}", "1234").outcome, Outcome::kWrong);
  const MathConfig point = {.mode = MathMode::kStrict};
  EXPECT_EQ(Judge(point, "\\boxed{1,234}", "1234").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge(point, "\\boxed{3,5}", "3.5").outcome, Outcome::kWrong);
}

TEST(MathSettings, StrictModeDoesNotAcceptRounding) {
  EXPECT_EQ(Judge({.mode = MathMode::kLenient}, "\\boxed{0.333}", "1/3").outcome,
            Outcome::kCorrect);
  EXPECT_EQ(Judge({.mode = MathMode::kStrict}, "\\boxed{0.333}", "1/3").outcome, Outcome::kWrong);
}

TEST(MathSettings, StrictModeRefusesAComputationForANumeral) {
  const std::pair<std::string_view, std::string_view> computations[] = {{"123 \\cdot 456", "56088"},
                                                                        {"2 + 3", "5"},
                                                                        {"84/2", "42"},
                                                                        {"(7 - 4) \\times 2", "6"},
                                                                        {"2 \\cdot 2.5", "\\$5"}};
  for (const auto& [given, gold] : computations) {
    const std::string box = "\\boxed{" + std::string(given) + "}";
    EXPECT_EQ(Judge({.mode = MathMode::kStrict}, box, gold).outcome, Outcome::kWrong) << given;
  }
  const std::pair<std::string_view, std::string_view> values[] = {{"1.2 \\times 10^3", "1200"},
                                                                  {"2^{10}", "1024"},
                                                                  {"3 1/2", "7/2"},
                                                                  {"1/3", "1/3"},
                                                                  {"3 1/2", "3.5"},
                                                                  {"2\\sqrt3", "\\sqrt{12}"},
                                                                  {"-5", "-5"},
                                                                  {"1 + i", "1 + i"},
                                                                  {"2 + 3", "2 + 3"},
                                                                  {"1/2", "0.5"}};
  for (const auto& [given, gold] : values) {
    const std::string box = "\\boxed{" + std::string(given) + "}";
    EXPECT_EQ(Judge({.mode = MathMode::kStrict}, box, gold).outcome, Outcome::kCorrect) << given;
  }
}

TEST(MathSettings, TheQuestionIsNoAnswerInEitherMode) {
  struct Case {
    std::string_view prompt, given, gold;
    Outcome outcome;
  };

  const Case cases[] = {
      {"What is $123 \\cdot 456$?", "123 \\times 456", "56088", Outcome::kWrong},
      {"What is 123*456?", "123 \\cdot 456", "56,088", Outcome::kWrong},
      {"Compute $2^{10}$.", "2^{10}", "1024", Outcome::kWrong},
      {"Simplify $\\sqrt{12}+\\sqrt{3}$.", "\\sqrt{12}+\\sqrt{3}", "3\\sqrt{3}", Outcome::kWrong},
      {"Write $\\frac{1}{2}$ as a decimal.", "\\frac{1}{2}", "0.5", Outcome::kWrong},
      {"What is $123 \\cdot 456$?", "56088", "56088", Outcome::kCorrect},
      {"What is $123 \\cdot 456$?", "123 \\cdot 456 = 56088", "56088", Outcome::kCorrect},
      {"A box holds 1/2 of it. How much is left?", "1/2", "\\frac12", Outcome::kCorrect},
      {"A box holds 1/2 of it. How much is left?", "\\frac{1}{2}", "1/2", Outcome::kCorrect},
      {"What is $12 + 34$?", "2 + 3", "5", Outcome::kCorrect},
      {"Which of 2 + 3 and 5 is it?", "2 + 3", "5", Outcome::kCorrect},
      {"Compute it.", "2 + 3", "5", Outcome::kCorrect}};
  for (const Case& one : cases) {
    const std::string box = "\\boxed{" + std::string(one.given) + "}";
    EXPECT_EQ(Judge({}, box, one.gold, false, one.prompt).outcome, one.outcome)
        << one.prompt << " " << one.given;
  }
}

TEST(MathSettings, UnknownModesAndAnchorsAreRefused) {
  EXPECT_FALSE(ParseReward({"run.reward.math.mode=loose"}).ok());
  EXPECT_FALSE(ParseReward({"run.reward.math.anchors=[boxed, bold]"}).ok());
  EXPECT_FALSE(ParseReward({"run.reward.math.anchors=[]"}).ok());
  EXPECT_FALSE(ParseReward({"run.reward.second.share=0.1"}).ok());
  EXPECT_FALSE(
      ParseReward({"run.reward.second.share=1.5", "run.reward.second.verifier=number"}).ok());
  EXPECT_TRUE(
      ParseReward({"run.reward.math.mode=strict", "run.reward.math.anchors=[boxed, 'answer:']"})
          .ok());
}

// Lists of expressions that are expensive to compare. Without a bound on the steps this takes
// minutes.
TEST(MathSettings, AComparisonThatTakesTooManyStepsIsWrong) {
  std::string given;
  std::string gold;
  for (int i = 0; i < 60; ++i) {
    const std::string member = "\\sin(\\ln(x^{17}+\\sqrt{y}+" + std::to_string(i) + "))";
    given += (i > 0 ? ", " : "") + member;
    gold = member + (i > 0 ? ", " : "") + gold;
  }
  EXPECT_NE(Judge({}, "\\boxed{" + given + "}", "\\boxed{" + gold + "z}").outcome,
            Outcome::kCorrect);
}

}  // namespace
}  // namespace buttress::math_settings_test
