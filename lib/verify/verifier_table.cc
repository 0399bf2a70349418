#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using enum Outcome;

constexpr KnownAnswer kExactAnswers[] = {
    {" Paris\n", "Paris", kCorrect},
    {"paris", "Paris", kWrong},
    {"", "Paris", kWrong},
};

constexpr KnownAnswer kNumberAnswers[] = {
    {"He pays 3 * 4 = $12 a day.\n#### 12", "3 * 4 = <<3*4=12>>12\n#### 12", kCorrect},
    {"so we get \\boxed{1,234.50}", "#### 1234.5", kCorrect},
    {"The answer is -7.", "-7", kCorrect},
    {"The answer is 7.", "-7", kWrong},
    {"I do not know.", "12", kWrong},
    {"12", "no number here", kUnscorable},
};

constexpr KnownAnswer kMathAnswers[] = {
    {"so it is \\boxed{\\frac{1}{2}}.", "Half of one is $\\boxed{0.5}$.", kCorrect},
    {"The final answer is $2\\sqrt{3}$.", "\\sqrt{12}", kCorrect},
    {"\\boxed{x^2+2x+1}", "(x+1)^2", kCorrect},
    {"\\boxed{(-\\infty, 2]}", "x \\leq 2", kCorrect},
    {"\\boxed{2, 1}", "\\{1, 2\\}", kCorrect},
    {"\\boxed{(2, 1)}", "(1, 2)", kWrong},
    {"\\boxed{-\\frac{1}{2}}", "\\frac{1}{2}", kWrong},
    {"\\boxed{1 + 1/e}", "1 - 1/e", kWrong},
    {"\\boxed{\\frac{1}{2004!}}", "\\frac{1}{2006!}", kWrong},
    {"\\boxed{7}", "5^(5^(5^5))", kUnscorable},
    {"I do not know.", "12", kWrong},
    {"12", "", kUnscorable},
};

constexpr KnownAnswer kArithmeticAnswers[] = {
    {"42", "42", kCorrect},
    {"-42", "42", kWrong},
    {"about 42", "42", kWrong},
    {"42", "forty-two", kUnscorable},
};

constexpr KnownAnswer kCountdownAnswers[] = {
    {"7-5+7-1", "7 7 1 5 > 8", kCorrect},
    {"<answer>(7 - 5) * 7 / 1 = 14</answer>",
     R"({"numbers": [7, 7, 1, 5], "target": 14})",
     kCorrect},
    {"7-5+7-1", "7 7 1 5 > 9", kWrong},
    {"7+7-5-5", "7 7 1 5 > 4", kWrong},
    {"7/(1-1)", "7 1 1 > 4", kWrong},
    {"7-5+7-1", "eight", kUnscorable},
};

constexpr VerifierEntry kTable[] = {
    {"exact",
     MakeExact,
     "the response is the answer, white space around them aside",
     kExactAnswers},
    {"number",
     MakeNumber,
     "the final number of a worked solution (####, \\boxed{}, 'answer is', else the last one) "
     "equals the answer's",
     kNumberAnswers},
    {"math",
     MakeMath,
     "the final answer (\\boxed{}, 'final answer is', ####, 'Answer:', else the last expression) "
     "means the same as the answer's",
     kMathAnswers},
    {"arithmetic",
     MakeArithmetic,
     "the response, or what its <answer> tags hold, is the answer's integer and nothing else",
     kArithmeticAnswers},
    {"countdown",
     MakeCountdown,
     "the response is an expression over the given numbers that equals the target, exactly",
     kCountdownAnswers},
};

}  // namespace

std::span<const VerifierEntry> VerifierTable() { return kTable; }

}  // namespace buttress
