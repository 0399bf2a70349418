#include <gtest/gtest.h>

#include "lib/verify/verifier.h"

namespace buttress::math_test {
namespace {

Verdict Judge(std::string_view response, std::string_view answer, bool truncated = false) {
  static const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("math", RewardConfig{});
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return (*verifier)->Verify({{}, response, answer, {}, truncated});
}

struct Pair {
  std::string_view given;
  std::string_view gold;
};

TEST(Math, EqualAnswersAreCorrectInBothDirections) {
  const Pair pairs[] = {
      {R"(\dfrac{1}{2})", R"(\frac12)"},
      {"0.5", "1/2"},
      {"5.", "5"},
      {"5\u200b", "5"},
      {"\u2060\\text{\u200eB}", "B"},
      {"18.00", "18"},
      {"+5", "5"},
      {R"(50\%)", "0.5"},
      {"50", R"(50\%)"},
      {R"(2\sqrt{3})", R"(\sqrt{12})"},
      {R"(\sqrt[3]{-8})", "-2"},
      {R"(\frac{1}{\sqrt{2}})", R"(\frac{\sqrt{2}}{2})"},
      {R"(\sqrt{3+2\sqrt2})", R"(1+\sqrt 2)"},
      {"1,234", "1234"},
      {R"(1{,}234{,}567)", R"(1,\!234,\!567)"},
      {R"(3\frac{1}{2})", "7/2"},
      {"3 1/2", "3.5"},
      {R"(-1\frac14)", "-1.25"},
      {R"(2\cdot\frac{3}{4})", "3/2"},
      {R"(0.1\overline{6})", "1/6"},
      {R"(1.2 \times 10^{3})", "1200"},
      {"1.2e3", "1200"},
      {R"(0{,}5)", "0.5"},
      {R"(\$5)", "5"},
      {R"(5\text{ cm})", "5"},
      {"5 centimeters", R"(5 \text{ cm})"},
      {R"(5\text{ cm}^2)", R"(5 \text{ square centimeters})"},
      {R"(30^\circ)", "30"},
      {R"(30^{\circ})", R"(\frac{\pi}{6})"},
      {R"(\left(1, 2\right))", "(1,2)"},
      {R"(\{1, 2\})", R"(\{2,1\})"},
      {"2, 1", "1 and 2"},
      {R"(3 \pm 2\sqrt{2})", R"(3-2\sqrt2, 3+2\sqrt2)"},
      {R"(x = \pm 2)", "2, -2"},
      {R"((-\infty, 1) \cup (2, \infty))", R"((2,\infty)\cup(-\infty,1))"},
      {R"(x > 3)", R"((3,\infty))"},
      {R"(1 \le x < 3)", "[1,3)"},
      {"x < 1 or x > 2", R"((-\infty,1)\cup(2,\infty))"},
      {"3 > x", "x < 3"},
      {"x = 5", "5"},
      {"f(x) = 2x + 1", "1 + 2x"},
      {"x = 1, y = 2", "(1,2)"},
      {"2x + z - 5 = 0", "4x + 2z = 10"},
      {R"(2 + 3 = 5)", "5"},
      {R"(x \in [1,2])", "[1,2]"},
      {R"(\begin{pmatrix} 1/2 & 0 \\ 0 & 1 \end{pmatrix})",
       R"(\begin{bmatrix} 0.5 & 0 \\ 0 & 1 \\ \end{bmatrix})"},
      {R"(\text{(C)})", "C"},
      {R"(\text{Even})", "even"},
      {R"(\text{four})", "4"},
      {R"(1010_2)", "1010_{2}"},
      {"664", "664_7"},
      {"(x+1)(x-1)", "x^2-1"},
      {R"(\frac{1}{x}+\frac{1}{y})", R"(\frac{x+y}{xy})"},
      {R"(10x\sqrt{21x})", R"(10\sqrt{21x^3})"},
      {R"(\sin^2 x + \cos^2 x)", "1"},
      {R"(\log_2 8)", "3"},
      {R"(\ln e^2)", "2"},
      {R"(e^{i\pi})", "-1"},
      {R"(i^3)", "-i"},
      {R"(\frac{1}{1+i})", R"(\frac{1-i}{2})"},
      {R"(\binom{5}{2})", "10"},
      {"5!", "120"},
      {"|-3|", "3"},
      {"6:4", "3:2"},
      {R"(\\frac{1}{2})", R"(\frac{1}{2})"},
      {R"(\mathrm{e}^2)", "e^2"},
      {"**73**", "73"},
      {"x**2", "x^2"},
      {"π/2", R"(\frac{\pi}{2})"},
      {"−5", "-5"},
      {"100, 200", "100,200"},
      {R"(\$\dfrac23 \approx \$0.67)", R"(\$\frac23)"},
  };
  for (const Pair& pair : pairs) {
    const std::string given = "\\boxed{" + std::string(pair.given) + "}";
    const std::string gold = "\\boxed{" + std::string(pair.gold) + "}";
    for (const auto& [response, answer] : {std::pair(given, gold), std::pair(gold, given)}) {
      const Verdict verdict = Judge(response, answer);
      EXPECT_EQ(verdict.outcome, Outcome::kCorrect)
          << response << " against " << answer << ": " << verdict.given << " | " << verdict.gold;
    }
  }
}

TEST(Math, NearMissesAreWrongInBothDirections) {
  const Pair pairs[] = {
      {"-5", "5"},
      {"51", "15"},
      {"0.333", "0.33"},
      {"0.34", "1/3"},
      {"0.33", "1/3"},
      {"3.15", R"(\pi)"},
      {"0.0", "1/1000"},
      {R"(\frac{1}{2^{99}})", R"(\frac{1}{2^{98}})"},
      {R"(\frac{1}{2004!})", R"(\frac{1}{2006!})"},
      {"1 - 1/e", "1 + 1/e"},
      {R"(\sqrt{2} + 10^{-60})", R"(\sqrt{2})"},
      {R"(2\sqrt{3})", R"(3\sqrt{2})"},
      {"(1,2)", "(2,1)"},
      {"[1,2)", "(1,2]"},
      {"(1,2)", "[1,2]"},
      {"1,2", "(1,2)"},
      {"1, 2", "1, 2, 3"},
      {R"(3 \pm \sqrt 2)", R"(3 + \sqrt 2)"},
      {"x > 3", R"(x \ge 3)"},
      {"x < 3", "x > 3"},
      {"x = 5", "y = 5"},
      {"p - q = 3", "3"},
      {"3x - y + 13 = 0", "3x + 4y + 14 = 0"},
      {"x + 1", "x - 1"},
      {"|x|", "x"},
      {"x^2", "x^3"},
      {"xy", "x + y"},
      {R"(\sin x)", R"(\cos x)"},
      {R"(5\text{ cm})", R"(5\text{ m})"},
      {R"(5\text{ cm})", R"(5\text{ cm}^2)"},
      {R"(\$5)", R"(5\text{ cents})"},
      {"1010_2", "1010_3"},
      {R"(50\%)", "0.05"},
      {R"(\text{even})", R"(\text{odd})"},
      {"A", "B"},
      {"5:6", "6:5"},
      {R"(\begin{pmatrix} 1 \\ 2 \end{pmatrix})", R"(\begin{pmatrix} 2 \\ 1 \end{pmatrix})"},
      {R"(\begin{pmatrix} 1 & 2 \end{pmatrix})", R"(\begin{pmatrix} 1 \\ 2 \end{pmatrix})"},
      {R"((-\infty, 1))", R"((1, \infty))"},
      {R"(\infty)", R"(-\infty)"},
      {"3 + 4i", "3 - 4i"},
      {R"(-x \in [1,2])", "[1,2]"},
      {"05:00", "15:00"},
      {"1.56 = 56\\%", "56\\%"},
      {R"(45\text{ units}^2)", R"(45\text{ units}^3)"},
  };
  for (const Pair& pair : pairs) {
    const std::string given = "\\boxed{" + std::string(pair.given) + "}";
    const std::string gold = "\\boxed{" + std::string(pair.gold) + "}";
    for (const auto& [response, answer] : {std::pair(given, gold), std::pair(gold, given)}) {
      const Verdict verdict = Judge(response, answer);
      EXPECT_EQ(verdict.outcome, Outcome::kWrong)
          << response << " against " << answer << ": " << verdict.given << " | " << verdict.gold;
    }
  }
}

struct Found {
  std::string_view response;
  std::string_view anchor;
  std::string_view given;
};

TEST(Math, FindsTheAnswerAndNamesItsAnchor) {
  const Found cases[] = {
      {R"(\boxed{1}. No, \boxed{2})", "boxed", "2"},
      {R"(\boxed{1} then \boxed{2)", "boxed", "1"},
      {R"($\boxed{3}$, $\boxed{4}$ and $\boxed{5}$.)", "boxed", "3, 4, 5"},
      {R"($\boxed{x+x}$ or $\boxed{2x}$)", "boxed", "(x + x)"},
      {R"(First $\boxed{3}$. Then it follows that, at last, $\boxed{4}$)", "boxed", "4"},
      {R"(\boxed 9$.)", "boxed", "9"},
      {R"(\fbox{9})", "boxed", "9"},
      {"The final answer is $x^2$. I hope it is correct.", "final answer is", "(x^2)"},
      {"The final answer is 12 because 3*4 = 12.", "final answer is", "12"},
      {"2 + 2\n#### 4", "####", "4"},
      {"#### Step 2\nAnswer: 7", "answer:", "7"},
      {"**Answer:** 42", "answer:", "42"},
      {"**Answer: 42**", "answer:", "42"},
      {"Answer: 42<|im_end|>", "answer:", "42"},
      {"So there are 5\nA: 26", "answer:", "26"},
      {"<think>\\boxed{3}</think> The answer is 4.", "answer:", "4"},
      {"It costs $12 and then $15 more", "last expression", "15"},
      {"Thus we see that it must be $x + 1$.", "last expression", "(x + 1)"},
      {"Thus we see that it must be \\(\\frac{3}{4}\\).", "last expression", "(3/4)"},
      {R"(\frac{1}{2})", "whole", "(1/2)"},
      {"east", "whole", "east"},
      {"So we get it. <answer>\\frac{1}{2}</answer>", "whole", "(1/2)"},
      {"See: <answer>5 apples</answer>. This took 3 steps.", "whole", "5"},
      {"### Final Answer\n$42$\n\nThis took 3 steps.", "answer:", "42"},
      {"**Answer**\n42\n\nI took 3 steps.", "answer:", "42"},
      {"\\[-9 = 54r.\\] So it is $5$.", "last expression", "5"},
      {"I do not know at all.", "", ""},
      {"", "", ""},
  };
  for (const Found& found : cases) {
    const Verdict verdict = Judge(found.response, "99");
    EXPECT_EQ(verdict.anchor, found.anchor) << found.response;
    EXPECT_EQ(verdict.given, found.given) << found.response;
  }
}

TEST(Math, ANumberThatTheResponseDoesNotStateIsNoAnswer) {
  for (const std::string_view response :
       {"The variable is x5", "It is made of H5", "see section_5", "The answer is not 5.",
        "The answer is not $5$.", "So it isn't 5", "It can't be 5", "The answer is maybe 5",
        "Perhaps it is 5.", "Could it be 5?", "My guess would be 5",
        "I cannot find it from the 5 numbers", "It is impossible to get 5", "The answer is 5 or 6.",
        "The answer is 4, 5 or 6", "It is 4 or 5", "either $4$ or $5$"}) {
    EXPECT_EQ(Judge(response, "5").outcome, Outcome::kWrong) << response;
  }
  for (const std::string_view response :
       {"It is 5, not 6.", "not 6 but, as seen, 5", "I am not sure at first. The answer is 5.",
        "The answer is 5 apples.", "It makes 5", "5 apples", "x = 5", "so $5",
        "The answer is $x = 5$.", "We do not need 7. It is 5."}) {
    EXPECT_EQ(Judge(response, "5").outcome, Outcome::kCorrect) << response;
  }
}

// Two places that give different numbers are a list of guesses, unless the first is taken back.
TEST(Math, ResponsesThatContradictThemselvesGiveNoAnswer) {
  for (const std::string_view response :
       {"So it is \\boxed{5}. The answer is 7.", "The final answer is 5. Thus the answer is: $7.",
        "#### 5\nThe answer is 7 apples.", "\\boxed{5}\n#### 7", "#### 5\nA: 7",
        "$\\boxed{5}$.\n\n**Answer:** \\(7\\)"}) {
    EXPECT_EQ(Judge(response, "5").outcome, Outcome::kWrong) << response;
    EXPECT_EQ(Judge(response, "7").outcome, Outcome::kWrong) << response;
  }
  for (const std::string_view response :
       {"So it is \\boxed{5}. Wait, I forgot two. The answer is 7.",
        "#### 5\nNo, that was wrong.\n#### 6\nActually, the answer is 7.",
        "The answer is 5. Hence the answer is 7."}) {
    EXPECT_EQ(Judge(response, "5").outcome, Outcome::kWrong) << response;
    EXPECT_EQ(Judge(response, "7").outcome, Outcome::kCorrect) << response;
  }
  for (const std::string_view response :
       {"\\boxed{7}. The answer is 7.", "\\boxed{7}. The answer is 7.00 dollars", "#### 7\nA: $7",
        "\\boxed{7}. We check our answer: $10 \\cdot 7 = 70$.", "\\boxed{7}. The answer is not 5.",
        "\\boxed{7}. The answer is 2 more than 5.", "\\boxed{7}. Is the answer 8 or 9?",
        "\\boxed{7}. The answer is 5 if we leave out Tom.", "\\boxed{7}. The answer is correct."}) {
    EXPECT_EQ(Judge(response, "7").outcome, Outcome::kCorrect) << response;
  }
  EXPECT_EQ(Judge("\\boxed{7}. The answer is 7", "7", /*truncated=*/true).outcome,
            Outcome::kCorrect);
}

TEST(Math, TheLastMemberOfAChainCountsUnlessTheChainIsFalse) {
  for (const std::string_view response :
       {"x = 2 + 3 = 5", "\\boxed{x = 2 + 3 = 5}", "So $a + b = \\frac{r}{2} = 5$.",
        "The answer is $a + b = 5$.", "So $\\measuredangle ABC = 5$."}) {
    EXPECT_EQ(Judge(response, "5").outcome, Outcome::kCorrect) << response;
  }
  for (const std::string_view response :
       {"x = 6 = 5", "\\boxed{x = 6 = 5}", "So $a + b = 6 = 5$.", "\\boxed{p - q = 5}"}) {
    EXPECT_EQ(Judge(response, "5").outcome, Outcome::kWrong) << response;
  }
}

// What the problem defines is not computed; no other first link may be wrong.
TEST(Math, AnOperationOfTheProblemIsNoFalseLink) {
  const auto judge = [](std::string_view prompt, std::string_view response) {
    const auto verifier = MakeVerifier("math", RewardConfig{});
    return (*verifier)->Verify({prompt, response, "100", {}, false}).outcome;
  };
  constexpr std::string_view kResponse = "So $2 * 6 = 2^6 + 6^2 = 100$.";
  for (const std::string_view prompt :
       {"If $a * b = a^b + b^a$, what is $2 * 6$?", "If $a\\ast b = a^b + b^a$, find $2 \\ast 6$.",
        "$P * Q$ means $P^Q + Q^P$. What is $2 * 6$?", "Let a*b = a^b + b^a. Find 2*6."}) {
    EXPECT_EQ(judge(prompt, kResponse), Outcome::kCorrect) << prompt;
    EXPECT_EQ(judge(prompt, "So $(1*2)*6 = 2 * 6 = 2^6 + 6^2 = 100$."), Outcome::kCorrect)
        << prompt;
    EXPECT_EQ(judge(prompt, "So $2 * 6 = 2^6 + 6^2 = 99 = 100$."), Outcome::kWrong) << prompt;
    EXPECT_EQ(judge(prompt, "So $2 \\cdot 6 = 2^6 + 6^2 = 100$."), Outcome::kWrong) << prompt;
  }
  for (const std::string_view prompt :
       {"", "What is $2 * 6$?", "**Find** the product of 2 and 6.", "What is $a * b$ for 2 and 6?"})
    EXPECT_EQ(judge(prompt, kResponse), Outcome::kWrong) << prompt;
}

TEST(Math, AnIdentityGivesItsLastMember) {
  EXPECT_EQ(Judge("So $t^3 \\cdot t^4 = t^7$.", "t^7").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("So $t^3 \\cdot t^5 = t^7$.", "t^7").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("So $x - p = 2 - 2p$.", "2 - 2p").outcome, Outcome::kWrong);
}

TEST(Math, AnAnswerAtTheEndOfATruncatedResponseDoesNotCount) {
  EXPECT_EQ(Judge("The answer is 12", "12", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("#### 12", "12", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("it makes 12", "12", /*truncated=*/true).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("\\boxed{12} and", "12", /*truncated=*/true).outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("#### 12\nand", "12", /*truncated=*/true).outcome, Outcome::kCorrect);
}

TEST(Math, ABoxThatDoesNotCloseHoldsNoAnswer) {
  for (const std::string_view response :
       {"So \\boxed{12", "Answer: 12\nor \\boxed{12", "\\fbox{12"})
    EXPECT_EQ(Judge(response, "12").outcome, Outcome::kWrong) << response;
  EXPECT_EQ(Judge("So \\boxed{12", "12", /*truncated=*/true).outcome, Outcome::kWrong);
}

TEST(Math, TheReferenceIsReadLikeAResponse) {
  EXPECT_EQ(Judge("\\boxed{4}", "2 + 2 = <<2+2=4>>4\n#### 4").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("Answer: 4", "So $x = \\boxed{4}$, as $x > 3$.").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("4", "").outcome, Outcome::kUnscorable);
}

// A hang or quadratic time would exceed the time limit of the test.
TEST(Math, ValuesThatAreTooLargeAreRefused) {
  EXPECT_EQ(Judge("\\boxed{7}", "5^(5^(5^5))").outcome, Outcome::kUnscorable);
  EXPECT_EQ(Judge("\\boxed{5^{5^{5^5}}}", "7").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("\\boxed{5^{5^{5^5}}}", "5^(5^(5^5))").outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("\\boxed{((((9!)!)!)!)!}", "7").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("\\boxed{\\frac{1}{0}}", "7").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("\\boxed{e^{e^{e^{e^e}}}}", "7").outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("\\boxed{0.5^{10^{30}}}", "0").outcome, Outcome::kWrong);
}

TEST(Math, AdversarialResponsesTakeLinearTime) {
  for (const std::string piece :
       {"\\boxed{", "{",    "}",      "$",    "\\(",          "(",      "[",
        "|",        "^",    "-",      "1,",   "1/",           "\\frac", "\\text{",
        "!",        "1+",   "\\sqrt", "x",    "answer is ",   "####",   "A:\n",
        "±",        "\\\\", "1 ",     "\xff", "\\overline{1", "_"}) {
    std::string response;
    while (response.size() < (1U << 18)) response += piece;
    for (const std::string& whole :
         {response, "\\boxed{" + response + "}", "\\boxed{" + response.substr(0, 4000) + "}",
          "answer: " + response.substr(0, 4000)})
      EXPECT_NE(Judge(whole, "7").outcome, Outcome::kCorrect) << piece;
  }
}

}  // namespace
}  // namespace buttress::math_test
