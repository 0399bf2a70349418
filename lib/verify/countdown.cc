#include "lib/verify/countdown.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxNumbers = 64;

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> Integer(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  return ParseInteger(value.dump());  // json::get would wrap integers above 2^63
}

Result<CountdownProblem> ParseJson(std::string_view text) {
  BUTTRESS_ASSIGN_OR_RETURN(const json row, ParseBoundedJson(text));
  if (!row.is_object()) return InvalidArgument("not a JSON object");
  CountdownProblem problem;
  const char* name = row.contains("numbers") ? "numbers" : "nums";
  if (!row.contains(name) || !row[name].is_array()) return InvalidArgument("no array 'numbers'");
  for (const json& number : row[name]) {
    const auto integer = Integer(number);
    if (!integer)
      return InvalidArgument("'numbers' holds " + number.dump() + ", which is not an integer");
    problem.numbers.push_back(*integer);
  }
  const auto target = row.contains("target") ? Integer(row["target"]) : std::nullopt;
  if (!target) return InvalidArgument("no integer 'target'");
  problem.target = *target;
  if (row.contains("operators")) {
    if (!row["operators"].is_string()) return InvalidArgument("'operators' is not a string");
    problem.operators = row["operators"].get<std::string>();
  }
  return problem;
}

Result<CountdownProblem> ParseCompact(std::string_view text) {
  const std::size_t arrow = text.find('>');
  if (arrow == std::string_view::npos)
    return InvalidArgument("neither JSON nor 'NUMBERS > TARGET'");
  CountdownProblem problem;
  for (std::string_view rest = Trim(text.substr(0, arrow)); !rest.empty();) {
    const std::size_t length = std::min(rest.find(' '), rest.size());
    const auto number = ParseInteger(rest.substr(0, length));
    if (!number)
      return InvalidArgument("'" + std::string(rest.substr(0, length)) + "' is not an integer");
    problem.numbers.push_back(*number);
    rest = Trim(rest.substr(length));
  }
  const auto target = ParseInteger(Trim(text.substr(arrow + 1)));
  if (!target) return InvalidArgument("no integer behind '>'");
  problem.target = *target;
  return problem;
}

// The expression of a response, and the value that the response claims for it ("7-5+7-1 = 8").
struct Claim {
  std::string_view expression;
  std::optional<std::string_view> value;
};

std::optional<Claim> FindClaim(const VerifyRequest& request) {
  std::string_view text = Trim(request.response);
  if (const auto tagged = InAnswerTags(text)) {
    text = *tagged;
  } else if (request.truncated) {
    return std::nullopt;
  }
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return Claim{text, std::nullopt};
  return Claim{Trim(text.substr(0, equals)), Trim(text.substr(equals + 1))};
}

class Countdown : public Verifier {
 public:
  explicit Countdown(NumberUse use) : use_(use) {}

  Verdict Verify(const VerifyRequest& request) const override {
    const Result<CountdownProblem> problem = ParseCountdown(request.answer);
    if (!problem.ok()) return Unscorable("answer: " + problem.status().message());
    const std::string gold = CanonicalForm(*problem);
    const std::optional<Claim> claim = FindClaim(request);
    if (!claim) return Wrong("", gold);
    const Result<Expression> expression = EvaluateExpression(claim->expression);
    if (!expression.ok()) return Wrong("", gold);
    const std::string given = expression->text + " = " + ToString(expression->value);
    if (claim->value && ParseDecimal(*claim->value) != expression->value) return Wrong(given, gold);
    return CheckSolution(*problem, *expression, use_).ok() ? Correct(given, gold)
                                                           : Wrong(given, gold);
  }

 private:
  const NumberUse use_;
};

}  // namespace

Result<CountdownProblem> ParseCountdown(std::string_view text) {
  text = Trim(text);
  BUTTRESS_ASSIGN_OR_RETURN(CountdownProblem problem,
                            text.starts_with('{') ? ParseJson(text) : ParseCompact(text));
  if (problem.numbers.empty() || problem.numbers.size() > kMaxNumbers) {
    return InvalidArgument(
        fmt::format("{} numbers; 1 to {} are expected", problem.numbers.size(), kMaxNumbers));
  }
  return problem;
}

std::string ToJson(const CountdownProblem& problem) {
  return nlohmann::ordered_json{
      {"numbers", problem.numbers}, {"target", problem.target}, {"operators", problem.operators}}
      .dump();
}

std::string CanonicalForm(const CountdownProblem& problem) {
  std::vector<std::int64_t> sorted = problem.numbers;
  std::sort(sorted.begin(), sorted.end());
  std::string form;
  for (const std::int64_t number : sorted) form += std::to_string(number) + " ";
  return form + "> " + std::to_string(problem.target);
}

Status CheckSolution(const CountdownProblem& problem, const Expression& expression, NumberUse use) {
  for (const char op : expression.operators) {
    if (problem.operators.find(op) == std::string::npos)
      return InvalidArgument(std::string("uses the operator ") + op);
  }
  std::vector<std::int64_t> left = problem.numbers;
  for (const std::int64_t number : expression.numbers) {
    const auto at = std::find(left.begin(), left.end(), number);
    if (at == left.end())
      return InvalidArgument("uses " + std::to_string(number) + " more often than it is given");
    left.erase(at);
  }
  if (use == NumberUse::kExactlyOnce && !left.empty())
    return InvalidArgument("does not use " + std::to_string(left.front()));
  if (expression.value != Rational(static_cast<signed long>(problem.target))) {
    return InvalidArgument("the value is " + ToString(expression.value));
  }
  return OkStatus();
}

std::unique_ptr<Verifier> MakeCountdown(const RewardConfig& config) {
  return std::make_unique<Countdown>(config.use_all ? NumberUse::kExactlyOnce
                                                    : NumberUse::kAtMostOnce);
}

}  // namespace buttress
