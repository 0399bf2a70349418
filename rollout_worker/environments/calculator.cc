#include <fmt/core.h>

#include <optional>

#include "lib/verify/math/evaluate.h"
#include "lib/verify/math/syntax/parser.h"
#include "rollout_worker/environments/tool.h"

namespace buttress {
namespace {

constexpr int kMaxDecimals = 30;
constexpr long kShownDigits = 15;
constexpr std::int64_t kMaxSteps = 100000;  // of an evaluation

// Returns the decimals of a number that has a few of them.
std::optional<std::string> Terminating(const Rational& value) {
  Rational scaled = abs(value);
  int decimals = 0;
  for (; scaled.get_den() != 1; scaled *= 10) {
    if (++decimals > kMaxDecimals) return std::nullopt;
  }
  std::string digits = scaled.get_num().get_str();
  const auto places = static_cast<std::size_t>(decimals);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  if (places > 0) digits.insert(digits.size() - places, ".");
  return (value < 0 ? "-" : "") + digits;
}

std::string About(const Ball& ball) {
  char* digits = arb_get_str(acb_realref(ball.get()), kShownDigits, ARB_STR_NO_RADIUS);
  std::string text = fmt::format("about {}", digits);
  flint_free(digits);
  return text;
}

ToolResult Calculate(const std::string& expression) {
  const Result<MathNode> node = ParseMath(expression, CommaReading::kThousands);
  if (!node.ok()) return {"error: " + node.status().message(), true};
  if (HasFreeSymbols(*node)) return {"error: the expression has a variable", true};
  std::int64_t steps = kMaxSteps;
  const MathPoint point{.steps_left = &steps};
  if (const std::optional<Rational> exact = RationalValue(*node)) {
    if (const auto decimals = Terminating(*exact)) return {*decimals};
    return {ToString(*exact) + ", " + About(Ball::Of(*exact, point.bits))};
  }
  const std::optional<Ball> ball = Evaluate(*node, point);
  if (!ball || acb_is_real(ball->get()) == 0)
    return {"error: no real number; it divides by zero, is too large, or is no expression", true};
  return {About(*ball)};
}

}  // namespace

Result<ToolFunction> MakeCalculator(const RunSettings&) {
  return ToolFunction([](const std::string& expression, std::int64_t) -> Result<ToolResult> {
    return Calculate(expression);
  });
}

}  // namespace buttress
