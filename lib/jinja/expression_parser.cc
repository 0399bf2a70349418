#include "lib/jinja/expression_parser.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <charconv>

#include "lib/jinja/builtins.h"

namespace buttress {
namespace {

using TokenKind = JinjaToken::Kind;
using Parsed = JinjaExpressionParser::Parsed;

constexpr int kExpressionLevelsMax = 100;

}  // namespace

JinjaExpression& JinjaExpressionParser::Make(Kind kind, int line) {
  JinjaExpression& expression = program_.expressions.emplace_back();
  expression.kind = kind;
  expression.line = line;
  return expression;
}

bool JinjaExpressionParser::TooDeep() {
  if (level_ <= kExpressionLevelsMax) return false;
  tokens_.Fail(tokens_.line(), "an expression nested deeper than " +
                                   std::to_string(kExpressionLevelsMax) + " levels");
  return true;
}

Parsed JinjaExpressionParser::Expression() {
  ++level_;
  const absl::Cleanup leave = [this] { --level_; };
  if (TooDeep()) return nullptr;
  Parsed value = Or();
  while (tokens_.AtName("if")) {
    JinjaExpression& choice = Make(Kind::kConditional, tokens_.Next().line);
    const Parsed condition = Or();
    choice.operands = {value, condition, tokens_.SkipName("else") ? Expression() : nullptr};
    value = &choice;
  }
  return value;
}

Parsed JinjaExpressionParser::ExpressionOrTuple() {
  const int line = tokens_.line();
  const Parsed first = Expression();
  if (!tokens_.AtOperator(",")) return first;
  JinjaExpression& tuple = Make(Kind::kTuple, line);
  tuple.operands.push_back(first);
  while (tokens_.SkipOperator(",")) {
    if (tokens_.At(TokenKind::kBlockEnd) || tokens_.At(TokenKind::kOutputEnd) ||
        tokens_.AtOperator(")")) {
      break;
    }
    tuple.operands.push_back(Expression());
  }
  return &tuple;
}

// Parses operands that are joined by `operators`, from the left.
Parsed JinjaExpressionParser::JoinedBy(std::initializer_list<std::string_view> operators, Kind kind,
                                       Rule operand) {
  const TokenKind token = kind == Kind::kBinary ? TokenKind::kOperator : TokenKind::kName;
  Parsed left = (this->*operand)();
  while (tokens_.At(token) && std::ranges::count(operators, tokens_.current().text) > 0) {
    JinjaExpression& joined = Make(kind, tokens_.line());
    joined.name = tokens_.Next().text;
    joined.operands = {left, (this->*operand)()};
    left = &joined;
  }
  return left;
}

Parsed JinjaExpressionParser::Or() {
  return JoinedBy({"or"}, Kind::kOr, &JinjaExpressionParser::And);
}

Parsed JinjaExpressionParser::And() {
  return JoinedBy({"and"}, Kind::kAnd, &JinjaExpressionParser::Not);
}

Parsed JinjaExpressionParser::Not() {
  if (!tokens_.AtName("not")) return Compare();
  ++level_;
  const absl::Cleanup leave = [this] { --level_; };
  if (TooDeep()) return nullptr;
  JinjaExpression& negation = Make(Kind::kNot, tokens_.Next().line);
  negation.operands = {Not()};
  return &negation;
}

std::string JinjaExpressionParser::ComparisonOperator() {
  for (const char* text : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (tokens_.SkipOperator(text)) return text;
  }
  if (tokens_.SkipName("in")) return "in";
  if (!tokens_.AtName("not") || tokens_.peek().kind != TokenKind::kName ||
      tokens_.peek().text != "in") {
    return "";
  }
  tokens_.Next();
  tokens_.Next();
  return "not in";
}

Parsed JinjaExpressionParser::Compare() {
  const int line = tokens_.line();
  const Parsed first = Sum();
  std::string name = ComparisonOperator();
  if (name.empty()) return first;
  JinjaExpression& comparison = Make(Kind::kCompare, line);
  comparison.operands.push_back(first);
  for (; !name.empty(); name = ComparisonOperator()) {
    comparison.operators.push_back(name);
    comparison.operands.push_back(Sum());
  }
  return &comparison;
}

Parsed JinjaExpressionParser::Sum() {
  return JoinedBy({"+", "-"}, Kind::kBinary, &JinjaExpressionParser::Concatenation);
}

Parsed JinjaExpressionParser::Concatenation() {
  return JoinedBy({"~"}, Kind::kBinary, &JinjaExpressionParser::Product);
}

Parsed JinjaExpressionParser::Product() {
  const Parsed product =
      JoinedBy({"*", "/", "//", "%"}, Kind::kBinary, &JinjaExpressionParser::Factor);
  if (tokens_.AtOperator("**")) tokens_.Fail(tokens_.line(), "operator '**' is not supported");
  return product;
}

// Parses an operand with filters, tests and calls behind it.
Parsed JinjaExpressionParser::Factor() {
  Parsed operand = Sign();
  while (true) {
    if (tokens_.AtOperator("|")) {
      operand = Filter(operand);
    } else if (tokens_.AtName("is")) {
      operand = Test(operand);
    } else if (tokens_.AtOperator("(")) {
      operand = Call(operand);
    } else {
      return operand;
    }
  }
}

Parsed JinjaExpressionParser::Sign() {
  ++level_;
  const absl::Cleanup leave = [this] { --level_; };
  if (TooDeep()) return nullptr;
  if (!tokens_.AtOperator("-") && !tokens_.AtOperator("+")) return Postfix(Primary());
  JinjaExpression& sign = Make(Kind::kSign, tokens_.line());
  sign.name = tokens_.Next().text;
  sign.operands = {Sign()};
  return Postfix(&sign);
}

Parsed JinjaExpressionParser::Primary() {
  switch (tokens_.current().kind) {
    case TokenKind::kName:
      return NameOrConstant();
    case TokenKind::kString:
      return Text();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return Number();
    default:
      break;
  }
  if (tokens_.AtOperator("(")) return Parentheses();
  if (tokens_.AtOperator("[")) return List();
  if (tokens_.AtOperator("{")) return Dict();
  tokens_.FailUnexpected("an expression");
  return nullptr;
}

Parsed JinjaExpressionParser::NameOrConstant() {
  const JinjaToken token = tokens_.Next();
  JinjaExpression& expression = Make(Kind::kLiteral, token.line);
  if (token.text == "true" || token.text == "True") {
    expression.literal = JinjaValue(true);
  } else if (token.text == "false" || token.text == "False") {
    expression.literal = JinjaValue(false);
  } else if (token.text != "none" && token.text != "None") {
    expression.kind = Kind::kName;
    expression.name = token.text;
  }
  return &expression;
}

Parsed JinjaExpressionParser::Text() {
  JinjaExpression& expression = Make(Kind::kLiteral, tokens_.line());
  std::string text;
  while (tokens_.At(TokenKind::kString)) text += tokens_.Next().text;  // adjacent strings are one
  expression.literal = JinjaValue::Text(std::move(text));
  return &expression;
}

Parsed JinjaExpressionParser::Number() {
  const JinjaToken token = tokens_.Next();
  JinjaExpression& expression = Make(Kind::kLiteral, token.line);
  const auto read = [&](auto value, const char* beyond) {
    const char* end = token.text.data() + token.text.size();
    if (std::from_chars(token.text.data(), end, value).ec != std::errc())
      tokens_.Fail(token.line, "number " + token.text + beyond);
    expression.literal = JinjaValue(value);
  };
  if (token.kind == TokenKind::kInteger) {
    read(std::int64_t{0}, " is above 2^63 - 1");
  } else {
    read(0.0, " is out of range");
  }
  return &expression;
}

Parsed JinjaExpressionParser::Parentheses() {
  const int line = tokens_.Next().line;
  if (tokens_.SkipOperator(")")) return &Make(Kind::kTuple, line);
  const Parsed inner = ExpressionOrTuple();
  tokens_.ExpectOperator(")");
  return inner;
}

Parsed JinjaExpressionParser::List() {
  JinjaExpression& list = Make(Kind::kList, tokens_.Next().line);
  while (tokens_.NextItem("]", list.operands.empty())) list.operands.push_back(Expression());
  return &list;
}

Parsed JinjaExpressionParser::Dict() {
  JinjaExpression& dict = Make(Kind::kDict, tokens_.Next().line);
  while (tokens_.NextItem("}", dict.operands.empty())) {
    dict.operands.push_back(Expression());
    tokens_.ExpectOperator(":");
    dict.operands.push_back(Expression());
  }
  return &dict;
}

Parsed JinjaExpressionParser::Postfix(Parsed operand) {
  while (true) {
    if (tokens_.AtOperator(".")) {
      operand = Attribute(operand);
    } else if (tokens_.AtOperator("[")) {
      operand = Subscript(operand);
    } else if (tokens_.AtOperator("(")) {
      operand = Call(operand);
    } else {
      return operand;
    }
  }
}

Parsed JinjaExpressionParser::Attribute(Parsed operand) {
  JinjaExpression& attribute = Make(Kind::kAttribute, tokens_.Next().line);
  attribute.operands = {operand};
  if (tokens_.At(TokenKind::kInteger)) {  // items.0
    attribute.kind = Kind::kItem;
    attribute.operands.push_back(Number());
  } else {
    attribute.name = tokens_.ExpectAnyName();
  }
  return &attribute;
}

Parsed JinjaExpressionParser::Subscript(Parsed operand) {
  JinjaExpression& item = Make(Kind::kItem, tokens_.Next().line);
  item.operands.push_back(operand);
  for (int part = 0; part < 3 && !tokens_.AtOperator("]"); ++part) {
    item.operands.push_back(tokens_.AtOperator(":") ? nullptr : Expression());
    if (!tokens_.SkipOperator(":")) break;
    item.kind = Kind::kSlice;
  }
  tokens_.ExpectOperator("]");
  if (item.kind == Kind::kSlice) item.operands.resize(4, nullptr);
  if (item.operands.size() == 1) tokens_.Fail(item.line, "[] without an index");
  return &item;
}

Parsed JinjaExpressionParser::Call(Parsed operand) {
  JinjaExpression& call = Make(Kind::kCall, tokens_.line());
  call.operands = {operand};
  Arguments(call);
  return &call;
}

void JinjaExpressionParser::Arguments(JinjaExpression& call) {
  tokens_.ExpectOperator("(");
  for (bool first = true; tokens_.NextItem(")", first); first = false) {
    if (tokens_.AtOperator("*") || tokens_.AtOperator("**")) {
      return tokens_.Fail(tokens_.line(),
                          "'" + tokens_.current().text + "' before an argument is not supported");
    }
    const bool named = tokens_.At(TokenKind::kName) &&
                       tokens_.peek().kind == TokenKind::kOperator && tokens_.peek().text == "=";
    if (named) {
      std::string name = tokens_.Next().text;
      tokens_.Next();
      call.named_arguments.emplace_back(std::move(name), Expression());
    } else if (call.named_arguments.empty()) {
      call.arguments.push_back(Expression());
    } else {
      tokens_.Fail(tokens_.line(), "an argument without a name after one with a name");
    }
  }
}

Parsed JinjaExpressionParser::Filter(Parsed operand) {
  JinjaExpression& filter = Make(Kind::kFilter, tokens_.Next().line);
  filter.name = tokens_.ExpectAnyName();
  if (!IsJinjaFilter(filter.name))
    tokens_.Fail(filter.line, "filter '" + filter.name + "' is not supported");
  filter.operands = {operand};
  if (tokens_.AtOperator("(")) Arguments(filter);
  return &filter;
}

Parsed JinjaExpressionParser::Test(Parsed operand) {
  JinjaExpression& test = Make(Kind::kTest, tokens_.Next().line);
  const bool negated = tokens_.SkipName("not");
  test.name = tokens_.ExpectAnyName();
  if (!IsJinjaTest(test.name)) tokens_.Fail(test.line, "test '" + test.name + "' is not supported");
  test.operands = {operand};
  const bool keyword = tokens_.AtName("else") || tokens_.AtName("or") || tokens_.AtName("and");
  if (tokens_.AtOperator("(")) {
    Arguments(test);
  } else if (tokens_.AtName("is")) {
    tokens_.Fail(tokens_.line(), "tests cannot be chained with 'is'");
  } else if (!keyword && (tokens_.At(TokenKind::kName) || tokens_.At(TokenKind::kString) ||
                          tokens_.At(TokenKind::kInteger) || tokens_.At(TokenKind::kFloat) ||
                          tokens_.AtOperator("[") || tokens_.AtOperator("{"))) {
    test.arguments = {Postfix(Primary())};
  }
  if (!negated) return &test;
  JinjaExpression& negation = Make(Kind::kNot, test.line);
  negation.operands = {&test};
  return &negation;
}

}  // namespace buttress
