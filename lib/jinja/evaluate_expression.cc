// Evaluates expressions.
#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <ctime>

#include "lib/jinja/builtins.h"
#include "lib/jinja/evaluator.h"
#include "lib/jinja/print.h"

namespace buttress {

using ExpressionKind = JinjaExpression::Kind;

namespace {

constexpr std::size_t kTextBytesTotalMax = std::size_t{128} << 20;

constexpr std::pair<std::string_view, JinjaFunction> kFunctions[] = {
    {"raise_exception", JinjaFunction::kRaiseException},
    {"namespace", JinjaFunction::kNamespace},
    {"range", JinjaFunction::kRange},
    {"dict", JinjaFunction::kDict},
    {"strftime_now", JinjaFunction::kStrftimeNow},
};

// Functions of Jinja that are not supported here; naming them is an error instead of undefined.
constexpr std::string_view kUnsupportedFunctions[] = {"cycler", "joiner", "lipsum"};

// The local time in the format of C's strftime, as in transformers.
Result<JinjaValue> StrftimeNow(const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"format"}));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<std::string> format,
                            TextArgument(bound[0], "format"));
  if (!format) return InvalidArgument("strftime_now takes a format, such as '%d %b %Y'");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[256];
  const std::size_t size = std::strftime(text, sizeof text, format->c_str(), &local);
  if (size == 0 && !format->empty()) {
    return InvalidArgument("strftime_now: the format gives nothing, or more than 255 bytes");
  }
  return JinjaValue::Text(std::string(text, size));
}

}  // namespace

Status JinjaEvaluator::CheckBounds(const JinjaValue& value) {
  if (value.nesting() > kJinjaNestingMax) {
    return InvalidArgument("a namespace inside another value, or values nested deeper than " +
                           std::to_string(kJinjaNestingMax) + " levels");
  }
  if (value.count() > kJinjaCountMax) {
    return ResourceExhausted("a value of more than " + std::to_string(kJinjaCountMax) + " parts");
  }
  if (value.is_text()) {
    if (value.text().size() > kJinjaTextBytesMax) {
      return ResourceExhausted("a text of more than " + std::to_string(kJinjaTextBytesMax) +
                               " bytes");
    }
    text_bytes_ += value.text().size();
  }
  if (text_bytes_ > kTextBytesTotalMax) {
    return ResourceExhausted("the template makes texts of more than " +
                             std::to_string(kTextBytesTotalMax) + " bytes in all");
  }
  return OkStatus();
}

Result<JinjaValue> JinjaEvaluator::Evaluate(const JinjaExpression& expression,
                                            const JinjaScope& scope) {
  ++depth_;
  const absl::Cleanup leave = [this] { --depth_; };
  Status status = CountStep();
  if (!status.ok()) return Locate(expression.line, status);
  Result<JinjaValue> value = EvaluateKind(expression, scope);
  if (!value.ok()) return Locate(expression.line, value.status());
  const bool made = expression.kind != ExpressionKind::kName &&
                    expression.kind != ExpressionKind::kLiteral &&
                    expression.kind != ExpressionKind::kAttribute;
  if (made) status = CheckBounds(*value);
  if (!status.ok()) return Locate(expression.line, status);
  return value;
}

Result<JinjaValue> JinjaEvaluator::EvaluateKind(const JinjaExpression& expression,
                                                const JinjaScope& scope) {
  switch (expression.kind) {
    case ExpressionKind::kLiteral:
      return expression.literal;
    case ExpressionKind::kName:
      return EvaluateName(expression, scope);
    case ExpressionKind::kDict:
      return EvaluateDict(expression, scope);
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression, scope);
    case ExpressionKind::kCall:
      return EvaluateCall(expression, scope);
    case ExpressionKind::kCompare:
      return EvaluateComparison(expression, scope);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
    case ExpressionKind::kConditional:
      return EvaluateLogic(expression, scope);
    default:
      break;
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> operands,
                            EvaluateAll(expression.operands, scope));
  switch (expression.kind) {
    case ExpressionKind::kList:
      return JinjaValue::List(std::move(operands));
    case ExpressionKind::kTuple:
      return JinjaValue::Tuple(std::move(operands));
    case ExpressionKind::kAttribute:
      return JinjaAttribute(operands[0], expression.name);
    case ExpressionKind::kItem:
      return JinjaItem(operands[0], operands[1]);
    case ExpressionKind::kNot:
      return JinjaValue(!operands[0].Truthy());
    case ExpressionKind::kSign:
      return JinjaSign(expression.name, operands[0]);
    case ExpressionKind::kBinary:
      return JinjaBinary(expression.name, operands[0], operands[1]);
    default:
      break;
  }
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaArguments arguments, EvaluateArguments(expression, scope));
  if (expression.kind == ExpressionKind::kFilter)
    return ApplyJinjaFilter(expression.name, operands[0], arguments);
  BUTTRESS_CHECK(expression.kind == ExpressionKind::kTest, "every kind of expression is handled");
  BUTTRESS_ASSIGN_OR_RETURN(const bool holds,
                            ApplyJinjaTest(expression.name, operands[0], arguments));
  return JinjaValue(holds);
}

Result<JinjaValue> JinjaEvaluator::EvaluateName(const JinjaExpression& expression,
                                                const JinjaScope& scope) {
  if (const JinjaValue* value = scope.Find(expression.name); value != nullptr) return *value;
  for (const auto& [name, function] : kFunctions) {
    if (name == expression.name) return JinjaValue(function);
  }
  if (std::ranges::count(kUnsupportedFunctions, expression.name) > 0) {
    return InvalidArgument("function '" + expression.name + "' is not supported");
  }
  return JinjaValue::Undefined("'" + expression.name + "' is undefined");
}

Result<JinjaValue> JinjaEvaluator::EvaluateDict(const JinjaExpression& expression,
                                                const JinjaScope& scope) {
  JinjaEntries entries;  // a later entry replaces an earlier one with the same key
  for (std::size_t i = 0; i < expression.operands.size(); i += 2) {
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue key, Evaluate(*expression.operands[i], scope));
    BUTTRESS_ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*expression.operands[i + 1], scope));
    if (!key.is_text()) {
      return InvalidArgument("a key of type '" + std::string(key.TypeName()) +
                             "' is not supported; texts are");
    }
    SetEntry(entries, key.text(), std::move(value));
  }
  return JinjaValue::Dict(std::move(entries));
}

Result<JinjaValue> JinjaEvaluator::EvaluateSlice(const JinjaExpression& expression,
                                                 const JinjaScope& scope) {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*expression.operands[0], scope));
  std::optional<std::int64_t> bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (expression.operands[i + 1] == nullptr) continue;
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue bound, Evaluate(*expression.operands[i + 1], scope));
    if (bound.is_none()) continue;
    BUTTRESS_ASSIGN_OR_RETURN(bounds[i], IntegerArgument(bound, "slice", 0));
  }
  return JinjaSlice(value, {.begin = bounds[0], .end = bounds[1], .step = bounds[2]});
}

Result<JinjaValue> JinjaEvaluator::EvaluateComparison(const JinjaExpression& expression,
                                                      const JinjaScope& scope) {
  BUTTRESS_ASSIGN_OR_RETURN(JinjaValue left, Evaluate(*expression.operands[0], scope));
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(JinjaValue right, Evaluate(*expression.operands[i + 1], scope));
    BUTTRESS_ASSIGN_OR_RETURN(const bool holds, JinjaCompare(expression.operators[i], left, right));
    if (!holds) return JinjaValue(false);
    left = std::move(right);
  }
  return JinjaValue(true);
}

Result<JinjaValue> JinjaEvaluator::EvaluateLogic(const JinjaExpression& expression,
                                                 const JinjaScope& scope) {
  if (expression.kind == ExpressionKind::kConditional) {
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue holds, Evaluate(*expression.operands[1], scope));
    if (holds.Truthy()) return Evaluate(*expression.operands[0], scope);
    if (expression.operands[2] != nullptr) return Evaluate(*expression.operands[2], scope);
    return JinjaValue::Undefined("the inline if has no else, and its condition is false");
  }
  BUTTRESS_ASSIGN_OR_RETURN(JinjaValue left, Evaluate(*expression.operands[0], scope));
  const bool decided = left.Truthy() == (expression.kind == ExpressionKind::kOr);
  return decided ? Result<JinjaValue>(std::move(left)) : Evaluate(*expression.operands[1], scope);
}

Result<std::vector<JinjaValue>> JinjaEvaluator::EvaluateAll(
    const std::vector<const JinjaExpression*>& list, const JinjaScope& scope) {
  std::vector<JinjaValue> values;
  values.reserve(list.size());
  for (const JinjaExpression* expression : list) {
    BUTTRESS_ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*expression, scope));
    values.push_back(std::move(value));
  }
  return values;
}

Result<JinjaArguments> JinjaEvaluator::EvaluateArguments(const JinjaExpression& expression,
                                                         const JinjaScope& scope) {
  JinjaArguments arguments;
  BUTTRESS_ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(expression.arguments, scope));
  for (const auto& [name, argument] : expression.named_arguments) {
    BUTTRESS_ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*argument, scope));
    arguments.named.emplace_back(name, std::move(value));
  }
  return arguments;
}

Result<JinjaValue> JinjaEvaluator::EvaluateCall(const JinjaExpression& expression,
                                                const JinjaScope& scope) {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue callee, Evaluate(*expression.operands[0], scope));
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaArguments arguments, EvaluateArguments(expression, scope));
  if (callee.Is<std::shared_ptr<const JinjaMethod>>()) {
    return CallJinjaMethod(*callee.As<std::shared_ptr<const JinjaMethod>>(), arguments);
  }
  if (callee.Is<const JinjaStatement*>()) {
    return CallMacro(*callee.As<const JinjaStatement*>(), arguments);
  }
  if (callee.Is<JinjaFunction>()) return CallFunction(callee.As<JinjaFunction>(), arguments);
  if (callee.is_undefined()) return InvalidArgument(*callee.As<JinjaUndefined>().what);
  return InvalidArgument("a value of type '" + std::string(callee.TypeName()) + "' is called");
}

Result<JinjaValue> JinjaEvaluator::CallMacro(const JinjaStatement& macro,
                                             const JinjaArguments& arguments) {
  std::vector<std::string_view> names;
  for (const JinjaStatement::Parameter& parameter : macro.parameters) {
    names.push_back(parameter.name);
  }
  Result<std::vector<std::optional<JinjaValue>>> bound = BindJinjaArguments(arguments, names);
  if (!bound.ok()) return bound.status().Annotate("macro '" + macro.text + "'");
  // Macros are defined at the top of the template, so their enclosing names are the globals.
  JinjaScope own{.parent = &globals_, .names = {}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const JinjaStatement::Parameter& parameter = macro.parameters[i];
    JinjaValue value = JinjaValue::Undefined("parameter '" + parameter.name + "' was not provided");
    if ((*bound)[i].has_value()) {
      value = *(*bound)[i];
    } else if (parameter.absent != nullptr) {
      BUTTRESS_ASSIGN_OR_RETURN(value, Evaluate(*parameter.absent, own));
    }
    own.Set(parameter.name, std::move(value));
  }
  std::string text;
  BUTTRESS_RETURN_IF_ERROR(Run(macro.body, own, text).status());
  return JinjaValue::Text(std::move(text));
}

Result<JinjaValue> JinjaEvaluator::Range(const JinjaArguments& arguments) const {
  const std::vector<JinjaValue>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
    return InvalidArgument("range takes one to three integers");
  }
  std::int64_t numbers[3] = {0, 0, 1};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].Is<std::int64_t>()) return InvalidArgument("range takes integers");
    numbers[given.size() == 1 ? 1 : i] = given[i].As<std::int64_t>();
  }
  const auto [begin, end, step] = numbers;
  if (step == 0) return InvalidArgument("range with step 0");
  std::vector<JinjaValue> items;
  std::int64_t at = begin;
  while (step > 0 ? at < end : at > end) {
    if (static_cast<std::int64_t>(items.size()) >= kJinjaCountMax) {
      return ResourceExhausted("range makes too many numbers");
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return JinjaValue::List(std::move(items));
}

Result<JinjaValue> JinjaEvaluator::CallFunction(JinjaFunction function,
                                                const JinjaArguments& arguments) {
  switch (function) {
    case JinjaFunction::kRaiseException: {
      BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"message"}));
      BUTTRESS_ASSIGN_OR_RETURN(const std::string message,
                                JinjaToText(bound[0].value_or(JinjaValue())));
      return InvalidArgument(message);
    }
    case JinjaFunction::kRange:
      return Range(arguments);
    case JinjaFunction::kStrftimeNow:
      return StrftimeNow(arguments);
    case JinjaFunction::kNamespace:
    case JinjaFunction::kDict:
      break;
  }
  if (arguments.positional.size() > 1 ||
      (arguments.positional.size() == 1 && !arguments.positional[0].is_dict())) {
    return InvalidArgument("dict and namespace take one dict and named values");
  }
  JinjaEntries entries;
  if (!arguments.positional.empty()) entries = arguments.positional[0].entries();
  for (const auto& [name, value] : arguments.named) SetEntry(entries, name, value);
  const JinjaValue dict = JinjaValue::Dict(std::move(entries));
  if (function == JinjaFunction::kDict) return dict;
  BUTTRESS_RETURN_IF_ERROR(CheckBounds(dict));
  return JinjaValue(std::make_shared<JinjaNamespace>(JinjaNamespace{dict.entries()}));
}

}  // namespace buttress
