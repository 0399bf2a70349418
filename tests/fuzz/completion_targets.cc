// Fuzz targets that parse the output of models.
#include <map>
#include <memory>

#include "lib/base/os/file.h"
#include "lib/chat/tool_calls.h"
#include "lib/verify/anchors.h"
#include "lib/verify/audit/variants.h"
#include "lib/verify/countdown.h"
#include "lib/verify/extract.h"
#include "lib/verify/math/answer.h"
#include "lib/verify/math/equal.h"
#include "lib/verify/math/syntax/parser.h"
#include "lib/verify/verifier.h"
#include "tests/fuzz/fuzz_target.h"

namespace buttress {
namespace {

const std::vector<std::string_view> kMathPieces = Words(R"(
\frac \sqrt \boxed{ \text{ \left( \right) ^{ _{ \\ \pm \cup \infty \pi \sin \log_ \begin{pmatrix}
\end{pmatrix} & ! % \% ^\circ = < \le \in \mid , ; and or $ ** 1,234 0.\overline{3} 5^(5^(5^5)) \{
\} | ∞ ² π √ \overline{ cm per million x i e)");
constexpr std::string_view kAnswerPieces[] = {"\\boxed{",
                                              "}",
                                              "####",
                                              "Answer:",
                                              "final answer is",
                                              "The answer is ",
                                              "</think>",
                                              "<answer>",
                                              "</answer>",
                                              "$",
                                              "$$",
                                              "\\(",
                                              "\\)",
                                              "\\[",
                                              "\\]",
                                              "A:\n",
                                              ". ",
                                              "\n",
                                              "<|im_end|>",
                                              "**",
                                              "12",
                                              "-3/4",
                                              "1,234",
                                              "%",
                                              "and",
                                              "or"};
constexpr std::string_view kExpressionPieces[] = {"+", "-", "*",  "/",  "(",        ")",
                                                  "=", "×", "÷",  "−",  "<answer>", "</answer>",
                                                  " ", "1", "25", "100"};

const std::vector<std::string_view> kCallPieces = Words(R"(
<tool_call> </tool_call> <function=f> </function> <parameter=a> </parameter> <arg_key>a </arg_key>
<arg_value> </arg_value> <think> </think> [TOOL_CALLS] [ARGS] [CALL_ID] <|python_tag|> "name":"f"
"arguments": "parameters": { } [ ] f( ) a= ' " """ \ \u00 , ; : 1e9 True None)");

std::vector<std::string> MathPairs() {
  std::vector<std::string> answers;
  const std::string text = *ReadFile(BUTTRESS_SOURCE_DIR "/tests/golden/math_pairs.txt");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t sign = line.find("=  ");
    if (sign != std::string::npos && sign > 3) {
      answers.push_back(line.substr(0, sign - 3));
      answers.push_back(line.substr(sign + 3));
    }
    at = end + 1;
  }
  return answers;
}

std::vector<std::string> Solutions() {
  return {"We have $x = \\frac{1}{2}$, so the final answer is $\\boxed{\\frac{3}{4}}$.",
          "3 * 4 = <<3*4=12>>12\nSo she pays $12 a day.\n#### 12",
          "<think>\\boxed{3}? No.</think> **Answer:** 42",
          "Thus $\\boxed{3}$, $\\boxed{4}$ and $\\boxed{5}$.",
          "The answer is 1,234.50 dollars. I hope it is correct.<|im_end|>",
          "so\n\\[ x = \\boxed{(-\\infty, 2) \\cup [3, \\infty)} \\]"};
}

std::vector<std::string> Expressions() {
  return {"7-5+7-1", "(7 - 5) * 7 / 1 = 14", "<answer>25*(100-3)</answer>", "((1+2)*(3+4))/5",
          "-1 - -2", "100 / (25 - 5*5)"};
}

std::vector<std::string> ToolCalls() {
  return {"Wait.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1]}}\n</tool_call>",
          "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
          "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]", "[TOOL_CALLS]f[ARGS]{\"a\": 1}",
          "[f(a=1, b='x'), g(c={'d': [True, None]})]"};
}

const Verifier& Named(const char* name) {
  static std::map<std::string, std::unique_ptr<Verifier>> verifiers;
  std::unique_ptr<Verifier>& verifier = verifiers[name];
  if (!verifier) verifier = *MakeVerifier(name, RewardConfig{});
  return *verifier;
}

// Parses the input as an answer, and compares it with itself and with another answer.
void RunMath(std::string_view input) {
  for (const CommaReading commas :
       {CommaReading::kThousands, CommaReading::kDecimal, CommaReading::kSeparator}) {
    const auto node = ParseMath(input, commas);
    if (!node.ok()) continue;
    for (const MathMode mode : {MathMode::kLenient, MathMode::kStrict}) {
      MathComparison how{.mode = mode};
      CompareMath(*node, *node, how);
      CompareMath(*node, MakeNumber(2), how);
    }
  }
  const std::string boxed = "\\boxed{" + std::string(input) + "}";
  Named("math").Verify({{}, boxed, "\\boxed{\\frac{1}{2}, (1, 2), x^2+1}", {}, false});
  Named("math").Verify({{}, "\\boxed{x+1}", boxed, {}, false});
}

void RunExtraction(std::string_view input) {
  const std::vector<std::string> anchors(std::begin(kMathAnchors), std::end(kMathAnchors));
  for (const bool truncated : {false, true}) (void)FindAnswers(input, truncated, anchors);
  (void)InLastBox(input);
  (void)InAnswerTags(input);
  NearMisses(FirstBytes(input, 200), 10);
  for (const char* name : {"math", "number", "exact", "arithmetic"})
    Named(name).Verify({{}, input, "12", {}, false});
  Named("number").Verify({{}, "12", input, {}, true});
}

void RunExpression(std::string_view input) {
  (void)EvaluateExpression(input);
  Named("countdown").Verify({{}, input, "7 7 1 5 > 8", {}, false});
  Named("countdown").Verify({{}, "7-5+7-1", input, {}, false});
}

void RunToolCalls(std::string_view input) {
  static const auto kTools = nlohmann::ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"properties": {
          "a": {"type": "integer"}, "b": {"anyOf": [{"type": "object"}, {"type": "null"}]}}}}}])");
  for (const ToolFormat format : {ToolFormat::kHermes, ToolFormat::kLlama, ToolFormat::kMistral,
                                  ToolFormat::kPythonic, ToolFormat::kQwen, ToolFormat::kGlm})
    (void)ReadAnswer(input, format, kTools);
}

}  // namespace

std::vector<FuzzTarget> CompletionTargets() {
  return {{"math", MathPairs, kMathPieces, 6000, RunMath},
          {"extraction", Solutions, kAnswerPieces, 1 << 17, RunExtraction},
          {"countdown", Expressions, kExpressionPieces, 1 << 14, RunExpression},
          {"tool_calls", ToolCalls, kCallPieces, 1 << 17, RunToolCalls}};
}

}  // namespace buttress
