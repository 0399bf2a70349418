#include "lib/verify/expression.h"

#include <charconv>
#include <utility>

namespace buttress {
namespace {

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
    if (space && digit(c) && !compact.empty() && digit(compact.back())) {
      return InvalidArgument("two numbers without an operator between them");
    }
    compact.push_back(c);
    space = false;
  }
  return compact;
}

class Parser {
 public:
  explicit Parser(std::string text) { expression_.text = std::move(text); }

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
    if (depth >= kMaxExpressionDepth) {
      return InvalidArgument("expression nests deeper than " + std::to_string(kMaxExpressionDepth));
    }
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

}  // namespace

Result<Expression> EvaluateExpression(std::string_view text) {
  if (text.size() > kMaxExpressionBytes) {
    return InvalidArgument("expression of more than " + std::to_string(kMaxExpressionBytes) +
                           " bytes");
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::string compact, Compact(text));
  return Parser(std::move(compact)).Parse();
}

}  // namespace buttress
