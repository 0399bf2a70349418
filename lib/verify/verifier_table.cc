#include <algorithm>

#include "lib/config/reward_text.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using enum Outcome;

using Made = Result<std::unique_ptr<Verifier>>;

// A verifier that is a function.
class FunctionVerifier : public Verifier {
 public:
  FunctionVerifier(JudgeFunction* judge, const RewardConfig& config)
      : judge_(judge), config_(config) {}

  Verdict Verify(const VerifyRequest& request) const override { return judge_(request, config_); }

 private:
  JudgeFunction* const judge_;
  const RewardConfig config_;
};

// Adapts the factory of a verifier that takes no argument.
template <auto Make>
Made Plain(const RewardConfig& config, std::string_view argument) {
  if (!argument.empty())
    return InvalidArgument("'" + std::string(argument) +
                           "': this verifier takes nothing behind its name");
  return Make(config);
}

template <JudgeFunction* judge>
Made MakeFunction(const RewardConfig& config) {
  return Made(std::make_unique<FunctionVerifier>(judge, config));
}

template <JudgeFunction* judge>
constexpr auto kFunction = Plain<MakeFunction<judge>>;

Made MakeOverlong(const RewardConfig& config) {
  if (config.length.overlong_tokens > 0) return MakeFunction<JudgeOverlong>(config);
  return InvalidArgument(
      "run.reward.length.overlong_tokens = 0: verifier overlong needs the number of tokens that is "
      "too many");
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
    {.name = ChoiceName(VerifierId::kExact),
     .make = kFunction<JudgeExact>,
     .meaning = "the response equals the answer, except for white space at the ends",
     .known_answers = kExactAnswers},
    {.name = ChoiceName(VerifierId::kNumber),
     .make = kFunction<JudgeNumber>,
     .meaning = "the final number of a worked solution (after ####, in \\boxed{}, after 'answer "
                "is', else the last one that is stated) equals that of the answer",
     .settings = "run.reward.math.decimal",
     .source = "GSM8K, arXiv 2110.14168",
     .known_answers = kNumberAnswers},
    {.name = ChoiceName(VerifierId::kMath),
     .make = kFunction<JudgeMath>,
     .meaning = "the final answer (\\boxed{}, 'final answer is', ####, 'Answer:', else the last "
                "expression) has the meaning of the reference",
     .settings = "run.reward.math",
     .known_answers = kMathAnswers},
    {.name = ChoiceName(VerifierId::kArithmetic),
     .make = kFunction<JudgeArithmetic>,
     .meaning = "the response, or the content of its <answer> tags, is the integer of the answer "
                "and nothing else",
     .known_answers = kArithmeticAnswers},
    {.name = ChoiceName(VerifierId::kCountdown),
     .make = kFunction<JudgeCountdown>,
     .meaning =
         "the response is an expression over the given numbers that equals the target exactly",
     .settings = "run.reward.use_all",
     .known_answers = kCountdownAnswers},
    {.name = ChoiceName(VerifierId::kNormalized),
     .make = kFunction<JudgeNormalized>,
     .meaning = "the response has the words of the answer, or of one of a JSON list, regardless of "
                "case, punctuation, articles and white space",
     .source = "SQuAD, arXiv 1606.05250",
     .known_answers = kNormalizedAnswers},
    {.name = ChoiceName(VerifierId::kChoice),
     .make = kFunction<JudgeChoice>,
     .meaning = "the response names the letter of the answer, A to J",
     .known_answers = kChoiceAnswers},
    {.name = ChoiceName(VerifierId::kFormat),
     .make = kFunction<JudgeFormat>,
     .meaning = "the response consists of the configured tags in their order, each once",
     .settings = "run.reward.format",
     .known_answers = kFormatAnswers},
    {.name = ChoiceName(VerifierId::kLength),
     .make = kFunction<JudgeLength>,
     .meaning = "the length of the response is between min and max",
     .settings = "run.reward.length"},
    {.name = ChoiceName(VerifierId::kOverlong),
     .make = Plain<MakeOverlong>,
     .meaning = "the completion is short enough; near its token limit the reward falls from 0 to "
                "-1; for use in a sum",
     .settings = "run.reward.length",
     .source = "DAPO, arXiv 2503.14476, eq. 13",
     .known_answers = kOverlongAnswers},
    {.name = ChoiceName(VerifierId::kJsonSchema),
     .make = kFunction<JudgeJsonSchema>,
     .meaning = "the response contains JSON that fits the schema in the answer",
     .source = "JSON Schema, draft 2020-12",
     .known_answers = kJsonSchemaAnswers},
    {.name = ChoiceName(VerifierId::kInstructions),
     .make = kFunction<JudgeInstructions>,
     .meaning = "the response follows every instruction in the answer or row (instruction_id_list "
                "and kwargs)",
     .source = "IFEval, arXiv 2311.07911",
     .known_answers = kInstructionsAnswers},
    {.name = ChoiceName(VerifierId::kCode),
     .make = Plain<MakeCode>,
     .meaning = "the program in the response passes the tests in the answer, in a sandbox "
                "(lib/verify/code/tests.h)",
     .settings = "run.reward.code"},
    {.name = ChoiceName(VerifierId::kPython),
     .make = MakePython,
     .meaning = "python:FILE:FUNCTION, an unchanged reward function of verl (compute_score) or "
                "TRL, judges it so",
     .settings = "run.reward.python"},
    {.name = ChoiceName(VerifierId::kHttp),
     .make = Plain<MakeHttp>,
     .meaning = "the server at run.reward.http.url judges it so",
     .settings = "run.reward.http"},
};

constexpr bool HasARowForEachName() {
  return std::ranges::equal(kTable, kChoices<VerifierId>, {}, &VerifierEntry::name,
                            &ChoiceRow<VerifierId>::name);
}

static_assert(HasARowForEachName(), "kTable must have a row for each VerifierId, in order");

}  // namespace

std::span<const VerifierEntry> VerifierTable() { return kTable; }

}  // namespace buttress
