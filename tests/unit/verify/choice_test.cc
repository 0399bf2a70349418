#include <gtest/gtest.h>

#include "lib/verify/verifier.h"

namespace buttress::choice_test {
namespace {

Verdict Judge(std::string_view response, std::string_view answer, bool truncated = false) {
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("choice", RewardConfig{});
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return (*verifier)->Verify({{}, response, answer, {}, truncated});
}

TEST(Choice, ReadsTheLetterOfTheFinalAnswer) {
  for (const std::string_view response : {"B",
                                          "(B)",
                                          "**B**",
                                          "B.",
                                          "\\boxed{B}",
                                          "so $\\boxed{\\text{(B)}}$.",
                                          "<answer> B </answer>",
                                          "The answer is B.",
                                          "Answer: (B)",
                                          "**Answer:** B",
                                          "The correct answer is option B, because A is too small.",
                                          "First A looks right.\nB",
                                          "answer is: B) the second",
                                          "The answer is B, A is wrong.",
                                          "Therefore, B is correct.",
                                          "So I choose B.",
                                          "A good choice: B",
                                          "I would go with option B.",
                                          "A) 5\nB: 7\nThe correct choice is B",
                                          "(B) $x^2$",
                                          "It is B, not A.",
                                          "It is not A but B.",
                                          "A is wrong. B",
                                          "\\textbf{(B)}\\ 12",
                                          "B. Paris",
                                          "<think>The answer is A.</think> The answer is B."}) {
    const Verdict verdict = Judge(response, "B");
    EXPECT_EQ(verdict.outcome, Outcome::kCorrect) << response << " gave " << verdict.given;
    EXPECT_FALSE(verdict.anchor.empty()) << response;
  }
}

TEST(Choice, ADifferentLetterTwoLettersAndNoLetterAreWrong) {
  for (const std::string_view response :
       {"A", "The answer is A or B", "Answer: B, C", "B/D", "The answer is Berlin", "A B test",
        "B-12", "", "It could be B or something else.", "The answer is b2", "The answer is not B.",
        "I am not sure", "Maybe B.", "Is it B?", "(A) or (B)", "Both A and B are correct.",
        "B is wrong.", "Vitamin B helps.", "B. No, A."}) {
    EXPECT_EQ(Judge(response, "B").outcome, Outcome::kWrong) << response;
  }
}

TEST(Choice, ArticlesAndPronounsAreNoLetters) {
  EXPECT_EQ(Judge("A good choice", "A").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("I am not sure", "I").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("A is right.", "A").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("So I choose I.", "I").outcome, Outcome::kCorrect);
}

TEST(Choice, ALetterAtTheEndOfATruncatedResponseDoesNotCount) {
  EXPECT_EQ(Judge("The answer is B", "B", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("B", "B", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("\\boxed{B} and then", "B", /*truncated=*/true).outcome, Outcome::kCorrect);
}

TEST(Choice, AReferenceWithoutALetterIsUnscorable) {
  for (const std::string_view answer : {"", "1", "the second", "b"})
    EXPECT_EQ(Judge("B", answer).outcome, Outcome::kUnscorable) << answer;
}

}  // namespace
}  // namespace buttress::choice_test
