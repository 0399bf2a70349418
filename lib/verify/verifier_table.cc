#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using enum Outcome;

using Made = Result<std::unique_ptr<Verifier>>;

// Adapts the factory of a verifier that takes no argument.
template <auto Make>
Made Plain(const RewardConfig& config, std::string_view argument) {
  if (!argument.empty())
    return InvalidArgument("'" + std::string(argument) +
                           "': this verifier takes nothing behind its name");
  return Made(Make(config));
}

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
    {"<answer>(7 - 5) * 7 / 1 = 14</answer>", R"({"numbers": [7, 7, 1, 5], "target": 14})",
     kCorrect},
    {"7-5+7-1", "7 7 1 5 > 9", kWrong},
    {"7+7-5-5", "7 7 1 5 > 4", kWrong},
    {"7/(1-1)", "7 1 1 > 4", kWrong},
    {"7-5+7-1", "eight", kUnscorable},
};

constexpr KnownAnswer kNormalizedAnswers[] = {
    {"<answer>The  Eiffel-Tower!</answer>", "eiffel tower", kWrong},
    {"The answer is The Eiffel tower.", "eiffel tower", kCorrect},
    {"paris", R"(["London", "Paris"])", kCorrect},
    {"Rome", R"(["London", "Paris"])", kWrong},
    {"Rome", "", kUnscorable},
};

constexpr KnownAnswer kChoiceAnswers[] = {
    {"I think so.\n\nThe answer is (B).", "B", kCorrect},
    {"\\boxed{\\text{C}}", "(C)", kCorrect},
    {"Answer: A or B", "A", kWrong},
    {"A cat sat there.", "A", kWrong},
    {"B", "the second", kUnscorable},
};

constexpr KnownAnswer kFormatAnswers[] = {{"", "", kWrong}};

constexpr KnownAnswer kOverlongAnswers[] = {{"a text without its tokens", "", kUnscorable}};

constexpr KnownAnswer kJsonSchemaAnswers[] = {
    {R"({"age": 3})",
     R"({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})",
     kCorrect},
    {"```json\n[1, 2]\n```", R"({"items": {"type": "integer"}})", kCorrect},
    {R"({"age": "3"})", R"({"properties": {"age": {"type": "integer"}}})", kWrong},
    {"{", "{}", kWrong},
    {"{}", R"({"dependentRequired": {"a": ["b"]}})", kUnscorable},
};

constexpr KnownAnswer kInstructionsAnswers[] = {
    {"no commas here", R"({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]})",
     kCorrect},
    {"one, two", R"({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]})", kWrong},
    {"bonjour",
     R"({"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "fr"}]})",
     kUnscorable},
};

constexpr VerifierEntry kTable[] = {
    {"exact", Plain<MakeExact>, "the response is the answer, white space around them aside",
     kExactAnswers},
    {"number", Plain<MakeNumber>,
     "the final number of a worked solution (####, \\boxed{}, 'answer is', else the last one) "
     "equals the answer's",
     kNumberAnswers},
    {"math", Plain<MakeMath>,
     "the final answer (\\boxed{}, 'final answer is', ####, 'Answer:', else the last expression) "
     "means the same as the answer's",
     kMathAnswers},
    {"arithmetic", Plain<MakeArithmetic>,
     "the response, or what its <answer> tags hold, is the answer's integer and nothing else",
     kArithmeticAnswers},
    {"countdown", Plain<MakeCountdown>,
     "the response is an expression over the given numbers that equals the target, exactly",
     kCountdownAnswers},
    {"normalized", Plain<MakeNormalized>,
     "the answer's words, or those of one of a JSON list, without regard to case, punctuation, "
     "articles and white space",
     kNormalizedAnswers},
    {"choice", Plain<MakeChoice>, "the answer's letter, A to J", kChoiceAnswers},
    {"format", Plain<MakeFormat>,
     "the response is run.reward.format.tags in their order, each once", kFormatAnswers},
    {"length",
     Plain<MakeLength>,
     "the response is between run.reward.length.min and .max long",
     {}},
    {"overlong", Plain<MakeOverlong>,
     "0, down to -1 for a completion near its token limit (DAPO); part of a sum", kOverlongAnswers},
    {"json_schema", Plain<MakeJsonSchema>,
     "the response holds JSON that fits the schema in the answer", kJsonSchemaAnswers},
    {"instructions", Plain<MakeInstructions>,
     "the response follows every instruction of the answer or row (instruction_id_list and kwargs "
     "as in IFEval)",
     kInstructionsAnswers},
    {"code",
     Plain<MakeCode>,
     "the response's program passes the answer's tests, in a sandbox (lib/verify/code/tests.h)",
     {}},
    {"python",
     MakePython,
     "python:FILE:FUNCTION, a reward function written for verl (compute_score) or TRL, unchanged",
     {}},
    {"http", Plain<MakeHttp>, "the server at run.reward.http.url says so", {}},
};

}  // namespace

std::span<const VerifierEntry> VerifierTable() { return kTable; }

}  // namespace buttress
