#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/verify/verifier.h"

namespace buttress::weighted_sum_test {
namespace {

using ::testing::HasSubstr;

Verdict Judge(std::string_view sum, std::string_view response, std::string_view answer) {
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier(sum, RewardConfig{});
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return (*verifier)->Verify({{}, response, answer, {}, false});
}

TEST(WeightedSum, TheFirstPartDeterminesTheOutcomeAndTheTotalIsTheSum) {
  const Verdict good =
      Judge("number + 0.25 * format", "<think>so</think><answer>#### 12</answer>", "12");
  EXPECT_EQ(good.outcome, Outcome::kCorrect);
  EXPECT_EQ(good.raw_reward, 1);
  EXPECT_EQ(TotalReward(good), 1.25);
  const Verdict unformed = Judge("number + 0.25 * format", "#### 12", "12");
  EXPECT_EQ(unformed.outcome, Outcome::kCorrect);
  EXPECT_EQ(unformed.raw_reward, 1);
  EXPECT_EQ(TotalReward(unformed), 1);
  const Verdict wrong =
      Judge("number - 0.5 * format", "<think>so</think><answer>13</answer>", "12");
  EXPECT_EQ(wrong.outcome, Outcome::kWrong);
  EXPECT_EQ(wrong.raw_reward, 0);
  EXPECT_EQ(TotalReward(wrong), -0.5);
  ASSERT_EQ(wrong.parts.size(), 2U);
  EXPECT_EQ(wrong.parts[1].name, "format");
  EXPECT_EQ(wrong.parts[1].outcome, Outcome::kCorrect);
}

TEST(WeightedSum, AnUnscorablePartMakesTheSumUnscorable) {
  const Verdict verdict = Judge("exact + json_schema + number", "{}", "{}");
  EXPECT_EQ(verdict.outcome, Outcome::kUnscorable);
  EXPECT_EQ(verdict.raw_reward, 0);
  EXPECT_THAT(verdict.unscorable_reason, HasSubstr("number: answer: no number"));
  ASSERT_EQ(verdict.parts.size(), 3U);
  EXPECT_EQ(verdict.parts[0].outcome, Outcome::kCorrect);
  EXPECT_EQ(verdict.parts[2].outcome, Outcome::kUnscorable);
}

TEST(WeightedSum, AnUnknownPartIsNamed) {
  const auto verifier = MakeVerifier("math + 0.2 * formt", RewardConfig{});
  ASSERT_FALSE(verifier.ok());
  EXPECT_THAT(verifier.status().message(), HasSubstr("verifier 'formt' is unknown"));
}

}  // namespace
}  // namespace buttress::weighted_sum_test
