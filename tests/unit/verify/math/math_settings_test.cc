// The modes and anchors of run.reward.math.
#include <gtest/gtest.h>

#include "lib/config/load.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

Verdict Judge(const MathConfig& math, std::string_view response, std::string_view answer,
              bool truncated = false) {
  RewardConfig config;
  config.math = math;
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("math", config);
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return (*verifier)->Verify({{}, response, answer, {}, truncated});
}

constexpr std::string_view kBoth = "Answer: 3\nor rather \\boxed{4}";

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

TEST(MathSettings, StrictModeDoesNotAcceptRounding) {
  EXPECT_EQ(Judge({.mode = MathMode::kLenient}, "\\boxed{0.333}", "1/3").outcome,
            Outcome::kCorrect);
  EXPECT_EQ(Judge({.mode = MathMode::kStrict}, "\\boxed{0.333}", "1/3").outcome, Outcome::kWrong);
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
}  // namespace buttress
