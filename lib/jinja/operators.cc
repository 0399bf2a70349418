#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/jinja/builtins.h"
#include "lib/jinja/print.h"

namespace buttress {
namespace {

Status Mismatch(std::string_view name, const JinjaValue& left, const JinjaValue& right) {
  for (const JinjaValue* operand : {&left, &right}) {
    if (operand->is_undefined()) return InvalidArgument(*operand->As<JinjaUndefined>().what);
  }
  return InvalidArgument(fmt::format("operator '{}' does not take '{}' and '{}'", name,
                                     left.TypeName(), right.TypeName()));
}

Status Overflow(std::string_view name) {
  return InvalidArgument(fmt::format("operator '{}' leaves 64-bit integers", name));
}

Result<JinjaValue> Integers(std::string_view name, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (name == "+" || name == "-" || name == "*") {
    const bool overflow = name == "+"   ? __builtin_add_overflow(a, b, &result)
                          : name == "-" ? __builtin_sub_overflow(a, b, &result)
                                        : __builtin_mul_overflow(a, b, &result);
    return overflow ? Result<JinjaValue>(Overflow(name)) : JinjaValue(result);
  }
  if (b == 0) return InvalidArgument("division by zero");
  if (name == "/") return JinjaValue(static_cast<double>(a) / static_cast<double>(b));
  if (a == INT64_MIN && b == -1) return Overflow(name);
  // Python rounds down, and the remainder has the divisor's sign.
  const bool below = a % b != 0 && (a < 0) != (b < 0);
  return JinjaValue(name == "//" ? a / b - (below ? 1 : 0) : a % b + (below ? b : 0));
}

Result<JinjaValue> Floats(std::string_view name, double a, double b) {
  if (name == "+") return JinjaValue(a + b);
  if (name == "-") return JinjaValue(a - b);
  if (name == "*") return JinjaValue(a * b);
  if (b == 0) return InvalidArgument("division by zero");
  if (name == "/") return JinjaValue(a / b);
  if (name == "//") return JinjaValue(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return JinjaValue(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Result<JinjaValue> Add(const JinjaValue& left, const JinjaValue& right) {
  if (left.is_text() && right.is_text()) return JinjaValue::Text(left.text() + right.text());
  if (!left.is_list() || left.TypeName() != right.TypeName()) return Mismatch("+", left, right);
  std::vector<JinjaValue> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.TypeName() == "tuple" ? JinjaValue::Tuple(std::move(items))
                                    : JinjaValue::List(std::move(items));
}

Result<JinjaValue> RepeatText(const JinjaValue& text, const JinjaValue& times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times.integer(), 0));
  if (count != 0 && text.text().size() > kJinjaTextBytesMax / count) {
    return ResourceExhausted("operator '*' makes too long a text");
  }
  std::string out;
  out.reserve(count * text.text().size());
  for (std::size_t i = 0; i < count && !text.text().empty(); ++i) out += text.text();
  return JinjaValue::Text(std::move(out));
}

}  // namespace

Result<JinjaValue> JinjaBinary(std::string_view name, const JinjaValue& left,
                               const JinjaValue& right) {
  if (name == "~") {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string first, JinjaToText(left));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string second, JinjaToText(right));
    return JinjaValue::Text(first + second);
  }
  if (left.is_safe_text() || right.is_safe_text()) {
    return InvalidArgument(fmt::format(
        "operator '{}' with a text that filter 'safe' returned is not supported; ~ is", name));
  }
  if (left.is_integer() && right.is_integer())
    return Integers(name, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return Floats(name, left.number(), right.number());
  if (name == "+") return Add(left, right);
  if (name == "*" && left.is_text() && right.is_integer()) return RepeatText(left, right);
  if (name == "*" && right.is_text() && left.is_integer()) return RepeatText(right, left);
  return Mismatch(name, left, right);
}

Result<JinjaValue> JinjaSign(std::string_view name, const JinjaValue& operand) {
  if (operand.Is<double>()) {
    return JinjaValue(name == "-" ? -operand.As<double>() : operand.As<double>());
  }
  if (!operand.is_integer()) return Mismatch(name, operand, operand);
  return Integers(name, 0, operand.integer());
}

Result<bool> JinjaCompare(std::string_view name, const JinjaValue& left, const JinjaValue& right) {
  if (name == "==") return JinjaEqual(left, right);
  if (name == "!=") return !JinjaEqual(left, right);
  if (name == "in") return JinjaContains(right, left);
  if (name == "not in") {
    BUTTRESS_ASSIGN_OR_RETURN(const bool contains, JinjaContains(right, left));
    return !contains;
  }
  if (left.is_undefined() || right.is_undefined()) return Mismatch(name, left, right);
  if (name == "<") return JinjaLess(left, right);
  if (name == ">") return JinjaLess(right, left);
  BUTTRESS_ASSIGN_OR_RETURN(const bool less,
                            name == "<=" ? JinjaLess(left, right) : JinjaLess(right, left));
  return less || JinjaEqual(left, right);
}

}  // namespace buttress
