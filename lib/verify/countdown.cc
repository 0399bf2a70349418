#include "lib/verify/countdown.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/anchors.h"
#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using nlohmann::json;

// Returns the text in ASCII without white space. Refuses digits that only white space separates,
// because they would become one number.
Result<std::string> Compact(std::string_view text) {
  constexpr std::pair<std::string_view, char> kSigns[] = {
      {"×", '*'}, {"·", '*'}, {"÷", '/'}, {"−", '-'}};
  std::string compact;
  bool space = false;
  while (!text.empty()) {
    char c = text.front();
    std::size_t bytes = 1;
    for (const auto& [sign, ascii] : kSigns) {
      if (text.starts_with(sign)) {
        c = ascii;
        bytes = sign.size();
      }
    }
    text.remove_prefix(bytes);
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      space = true;
      continue;
    }
    const auto digit = [](char d) { return d >= '0' && d <= '9'; };
    if (space && digit(c) && !compact.empty() && digit(compact.back()))
      return InvalidArgument("two numbers without an operator between them");
    compact.push_back(c);
    space = false;
  }
  return compact;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string text) { expression_.text = std::move(text); }

  Result<Expression> Parse() && {
    BUTTRESS_ASSIGN_OR_RETURN(expression_.value, Sum(0));
    if (at_ < expression_.text.size()) return Unexpected();
    return std::move(expression_);
  }

 private:
  Result<Rational> Sum(int depth) {
    BUTTRESS_ASSIGN_OR_RETURN(Rational value, Product(depth));
    while (Peek() == '+' || Peek() == '-') {
      const char op = TakeOperator();
      BUTTRESS_ASSIGN_OR_RETURN(const Rational right, Product(depth));
      if (op == '+') {
        value += right;
      } else {
        value -= right;
      }
    }
    return value;
  }

  Result<Rational> Product(int depth) {
    BUTTRESS_ASSIGN_OR_RETURN(Rational value, Factor(depth));
    while (Peek() == '*' || Peek() == '/') {
      const char op = TakeOperator();
      BUTTRESS_ASSIGN_OR_RETURN(const Rational right, Factor(depth));
      if (op == '*') {
        value *= right;
      } else if (right == 0) {
        return InvalidArgument("division by zero");
      } else {
        value /= right;
      }
    }
    return value;
  }

  Result<Rational> Factor(int depth) {
    if (depth >= kMaxExpressionDepth)
      return InvalidArgument("expression nests deeper than " + std::to_string(kMaxExpressionDepth));
    if (Peek() == '-') {
      ++at_;
      BUTTRESS_ASSIGN_OR_RETURN(const Rational value, Factor(depth + 1));
      return Rational(-value);
    }
    if (Peek() == '(') {
      ++at_;
      BUTTRESS_ASSIGN_OR_RETURN(Rational value, Sum(depth + 1));
      if (Peek() != ')') return Unexpected();
      ++at_;
      return value;
    }
    return Number();
  }

  Result<Rational> Number() {
    const std::string& text = expression_.text;
    std::int64_t number = 0;
    const char* begin = text.data() + at_;
    if (Peek() < '0' || Peek() > '9') return Unexpected();  // from_chars would accept a sign
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error != std::errc())
      return InvalidArgument("number with too many digits at " + std::to_string(at_));
    if (*begin == '0' && end - begin > 1)
      return InvalidArgument("number with a leading zero at " + std::to_string(at_));
    at_ += static_cast<std::size_t>(end - begin);
    expression_.numbers.push_back(number);
    return Rational(static_cast<signed long>(number));
  }

  // Returns 0 at the end.
  char Peek() const { return at_ < expression_.text.size() ? expression_.text[at_] : '\0'; }

  char TakeOperator() {
    const char op = expression_.text[at_++];
    if (expression_.operators.find(op) == std::string::npos) expression_.operators.push_back(op);
    return op;
  }

  Status Unexpected() const {
    if (at_ >= expression_.text.size()) return InvalidArgument("expression ends early");
    return InvalidArgument("unexpected character at " + std::to_string(at_));
  }

  Expression expression_;
  std::size_t at_ = 0;
};

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

// Returns whether `expression` solves `problem`.
bool Solves(const CountdownProblem& problem, const Expression& expression, bool use_all) {
  const auto allowed = [&](char op) { return problem.operators.find(op) != std::string::npos; };
  if (!std::ranges::all_of(expression.operators, allowed)) return false;
  std::vector<std::int64_t> left = problem.numbers;
  for (const std::int64_t number : expression.numbers) {
    const auto at = std::ranges::find(left, number);
    if (at == left.end()) return false;
    left.erase(at);
  }
  return (left.empty() || !use_all) &&
         expression.value == Rational(static_cast<signed long>(problem.target));
}

}  // namespace

Result<Expression> EvaluateExpression(std::string_view text) {
  if (text.size() > kMaxExpressionBytes)
    return InvalidArgument("expression of more than " + std::to_string(kMaxExpressionBytes) +
                           " bytes");
  BUTTRESS_ASSIGN_OR_RETURN(std::string compact, Compact(text));
  return ExpressionParser(std::move(compact)).Parse();
}

Verdict JudgeCountdown(const VerifyRequest& request, const RewardConfig& config) {
  const Result<CountdownProblem> problem = ParseCountdown(request.answer);
  if (!problem.ok()) return Unscorable("answer: " + problem.status().message());
  const std::string gold = CanonicalForm(*problem);
  const std::optional<Claim> claim = FindClaim(request);
  if (!claim) return Wrong("", gold);
  const Result<Expression> expression = EvaluateExpression(claim->expression);
  if (!expression.ok()) return Wrong("", gold);
  const std::string given = expression->text + " = " + ToString(expression->value);
  if (claim->value && ParseDecimal(*claim->value) != expression->value) return Wrong(given, gold);
  return Solves(*problem, *expression, config.use_all) ? Correct(given, gold) : Wrong(given, gold);
}

Result<CountdownProblem> ParseCountdown(std::string_view text) {
  text = Trim(text);
  BUTTRESS_ASSIGN_OR_RETURN(CountdownProblem problem,
                            text.starts_with('{') ? ParseJson(text) : ParseCompact(text));
  if (problem.numbers.empty() || problem.numbers.size() > kMaxNumbers)
    return InvalidArgument(
        fmt::format("{} numbers; 1 to {} are expected", problem.numbers.size(), kMaxNumbers));
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

}  // namespace buttress
