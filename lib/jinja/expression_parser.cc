#include "lib/jinja/expression_parser.h"

#include <charconv>

#include "lib/jinja/builtins.h"

namespace buttress {
namespace {

constexpr int kExpressionLevelsMax = 100;

}  // namespace

class JinjaExpressionParser::Level {
 public:
  explicit Level(JinjaExpressionParser& parser) : parser_(parser) { ++parser_.level_; }

  ~Level() { --parser_.level_; }

  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  Status Check() const {
    if (parser_.level_ <= kExpressionLevelsMax) return OkStatus();
    return JinjaErrorAt(
        parser_.tokens_.line(),
        "an expression nested deeper than " + std::to_string(kExpressionLevelsMax) + " levels");
  }

 private:
  JinjaExpressionParser& parser_;
};

JinjaExpression& JinjaExpressionParser::Make(Kind kind, int line) {
  JinjaExpression& expression = program_.expressions.emplace_back();
  expression.kind = kind;
  expression.line = line;
  return expression;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Expression() {
  const Level level(*this);
  BUTTRESS_RETURN_IF_ERROR(level.Check());
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* value, Or());
  while (tokens_.AtName("if")) {
    JinjaExpression& choice = Make(Kind::kConditional, tokens_.Next().line);
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* condition, Or());
    const JinjaExpression* other = nullptr;
    if (tokens_.SkipName("else")) {
      BUTTRESS_ASSIGN_OR_RETURN(other, Expression());
    }
    choice.operands = {value, condition, other};
    value = &choice;
  }
  return value;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::ExpressionWithoutCondition() { return Or(); }

JinjaExpressionParser::Parsed JinjaExpressionParser::ExpressionOrTuple() {
  const int line = tokens_.line();
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* first, Expression());
  if (!tokens_.AtOperator(",")) return first;
  JinjaExpression& tuple = Make(Kind::kTuple, line);
  tuple.operands.push_back(first);
  while (tokens_.SkipOperator(",")) {
    if (tokens_.At(JinjaToken::Kind::kBlockEnd) || tokens_.At(JinjaToken::Kind::kOutputEnd) ||
        tokens_.AtOperator(")")) {
      break;
    }
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* item, Expression());
    tuple.operands.push_back(item);
  }
  return &tuple;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Or() {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* left, And());
  while (tokens_.AtName("or")) {
    JinjaExpression& either = Make(Kind::kOr, tokens_.Next().line);
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* right, And());
    either.operands = {left, right};
    left = &either;
  }
  return left;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::And() {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* left, Not());
  while (tokens_.AtName("and")) {
    JinjaExpression& both = Make(Kind::kAnd, tokens_.Next().line);
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* right, Not());
    both.operands = {left, right};
    left = &both;
  }
  return left;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Not() {
  if (!tokens_.AtName("not")) return Compare();
  const Level level(*this);
  BUTTRESS_RETURN_IF_ERROR(level.Check());
  JinjaExpression& negation = Make(Kind::kNot, tokens_.Next().line);
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* operand, Not());
  negation.operands = {operand};
  return &negation;
}

// Consumes a comparison operator; returns an empty name if there is none.
Result<std::string> JinjaExpressionParser::ComparisonOperator() {
  for (const char* text : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (tokens_.SkipOperator(text)) return std::string(text);
  }
  if (tokens_.SkipName("in")) return std::string("in");
  if (tokens_.AtName("not") && tokens_.peek().kind == JinjaToken::Kind::kName &&
      tokens_.peek().text == "in") {
    tokens_.Next();
    tokens_.Next();
    return std::string("not in");
  }
  return std::string();
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Compare() {
  const int line = tokens_.line();
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* first, Sum());
  JinjaExpression* comparison = nullptr;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(std::string name, ComparisonOperator());
    if (name.empty()) break;
    if (comparison == nullptr) {
      comparison = &Make(Kind::kCompare, line);
      comparison->operands.push_back(first);
    }
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* operand, Sum());
    comparison->operators.push_back(std::move(name));
    comparison->operands.push_back(operand);
  }
  return comparison == nullptr ? first : comparison;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Sum() {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* left, Concatenation());
  while (tokens_.AtOperator("+") || tokens_.AtOperator("-")) {
    JinjaExpression& sum = Make(Kind::kBinary, tokens_.line());
    sum.name = tokens_.Next().text;
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* right, Concatenation());
    sum.operands = {left, right};
    left = &sum;
  }
  return left;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Concatenation() {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* left, Product());
  while (tokens_.AtOperator("~")) {
    JinjaExpression& text = Make(Kind::kBinary, tokens_.line());
    text.name = tokens_.Next().text;
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* right, Product());
    text.operands = {left, right};
    left = &text;
  }
  return left;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Product() {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* left, Sign(/*with_filters=*/true));
  while (tokens_.AtOperator("*") || tokens_.AtOperator("/") || tokens_.AtOperator("//") ||
         tokens_.AtOperator("%")) {
    JinjaExpression& product = Make(Kind::kBinary, tokens_.line());
    product.name = tokens_.Next().text;
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* right, Sign(/*with_filters=*/true));
    product.operands = {left, right};
    left = &product;
  }
  if (tokens_.AtOperator("**")) {
    return JinjaErrorAt(tokens_.line(), "operator '**' is not supported");
  }
  return left;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Sign(bool with_filters) {
  const Level level(*this);
  BUTTRESS_RETURN_IF_ERROR(level.Check());
  const JinjaExpression* operand = nullptr;
  if (tokens_.AtOperator("-") || tokens_.AtOperator("+")) {
    JinjaExpression& sign = Make(Kind::kSign, tokens_.line());
    sign.name = tokens_.Next().text;
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* inner, Sign(/*with_filters=*/false));
    sign.operands = {inner};
    operand = &sign;
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(operand, Primary());
  }
  BUTTRESS_ASSIGN_OR_RETURN(operand, Postfix(operand));
  return with_filters ? FiltersAndTests(operand) : Parsed(operand);
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Primary() {
  using TokenKind = JinjaToken::Kind;
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
  return tokens_.Unexpected("an expression");
}

JinjaExpressionParser::Parsed JinjaExpressionParser::NameOrConstant() {
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

JinjaExpressionParser::Parsed JinjaExpressionParser::Text() {
  JinjaExpression& expression = Make(Kind::kLiteral, tokens_.line());
  std::string text;
  while (tokens_.At(JinjaToken::Kind::kString)) {
    text += tokens_.Next().text;  // adjacent strings are one
  }
  expression.literal = JinjaValue::Text(std::move(text));
  return &expression;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Number() {
  const JinjaToken token = tokens_.Next();
  JinjaExpression& expression = Make(Kind::kLiteral, token.line);
  const char* end = token.text.data() + token.text.size();
  if (token.kind == JinjaToken::Kind::kInteger) {
    std::int64_t value = 0;
    if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
      return JinjaErrorAt(token.line, "number " + token.text + " is above 2^63 - 1");
    }
    expression.literal = JinjaValue(value);
  } else {
    double value = 0;
    if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
      return JinjaErrorAt(token.line, "number " + token.text + " is out of range");
    }
    expression.literal = JinjaValue(value);
  }
  return &expression;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Parentheses() {
  const int line = tokens_.Next().line;
  if (tokens_.SkipOperator(")")) return &Make(Kind::kTuple, line);
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* inner, ExpressionOrTuple());
  BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
  return inner;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::List() {
  JinjaExpression& list = Make(Kind::kList, tokens_.Next().line);
  while (!tokens_.SkipOperator("]")) {
    if (!list.operands.empty()) BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    if (tokens_.SkipOperator("]")) break;
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* item, Expression());
    list.operands.push_back(item);
  }
  return &list;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Dict() {
  JinjaExpression& dict = Make(Kind::kDict, tokens_.Next().line);
  while (!tokens_.SkipOperator("}")) {
    if (!dict.operands.empty()) BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    if (tokens_.SkipOperator("}")) break;
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* key, Expression());
    BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* value, Expression());
    dict.operands.push_back(key);
    dict.operands.push_back(value);
  }
  return &dict;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Postfix(const JinjaExpression* operand) {
  while (true) {
    if (tokens_.AtOperator(".")) {
      BUTTRESS_ASSIGN_OR_RETURN(operand, Attribute(operand));
    } else if (tokens_.AtOperator("[")) {
      BUTTRESS_ASSIGN_OR_RETURN(operand, Subscript(operand));
    } else if (tokens_.AtOperator("(")) {
      BUTTRESS_ASSIGN_OR_RETURN(operand, Call(operand));
    } else {
      return operand;
    }
  }
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Attribute(const JinjaExpression* operand) {
  const int line = tokens_.Next().line;
  if (tokens_.At(JinjaToken::Kind::kInteger)) {  // items.0
    JinjaExpression& item = Make(Kind::kItem, line);
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* index, Number());
    item.operands = {operand, index};
    return &item;
  }
  JinjaExpression& attribute = Make(Kind::kAttribute, line);
  BUTTRESS_ASSIGN_OR_RETURN(attribute.name, tokens_.ExpectAnyName());
  attribute.operands = {operand};
  return &attribute;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Subscript(const JinjaExpression* operand) {
  JinjaExpression& item = Make(Kind::kItem, tokens_.Next().line);
  item.operands.push_back(operand);
  for (int part = 0; part < 3 && !tokens_.AtOperator("]"); ++part) {
    const JinjaExpression* value = nullptr;
    if (!tokens_.AtOperator(":")) {
      BUTTRESS_ASSIGN_OR_RETURN(value, Expression());
    }
    item.operands.push_back(value);
    if (tokens_.SkipOperator(":")) {
      item.kind = Kind::kSlice;
    } else {
      break;
    }
  }
  BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  if (item.kind == Kind::kSlice) item.operands.resize(4, nullptr);
  if (item.operands.size() == 1) return JinjaErrorAt(item.line, "[] without an index");
  return &item;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Call(const JinjaExpression* operand) {
  JinjaExpression& call = Make(Kind::kCall, tokens_.line());
  call.operands = {operand};
  BUTTRESS_RETURN_IF_ERROR(Arguments(call));
  return &call;
}

Status JinjaExpressionParser::Arguments(JinjaExpression& call) {
  BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  bool first = true;
  while (!tokens_.SkipOperator(")")) {
    if (!first) BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    if (!first && tokens_.SkipOperator(")")) break;
    first = false;
    if (tokens_.AtOperator("*") || tokens_.AtOperator("**")) {
      return JinjaErrorAt(tokens_.line(),
                          "'" + tokens_.current().text + "' before an argument is not supported");
    }
    const bool named = tokens_.At(JinjaToken::Kind::kName) &&
                       tokens_.peek().kind == JinjaToken::Kind::kOperator &&
                       tokens_.peek().text == "=";
    if (named) {
      std::string name = tokens_.Next().text;
      tokens_.Next();
      BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* value, Expression());
      call.named_arguments.emplace_back(std::move(name), value);
      continue;
    }
    if (!call.named_arguments.empty()) {
      return JinjaErrorAt(tokens_.line(), "an argument without a name after one with a name");
    }
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* value, Expression());
    call.arguments.push_back(value);
  }
  return OkStatus();
}

JinjaExpressionParser::Parsed JinjaExpressionParser::FiltersAndTests(
    const JinjaExpression* operand) {
  while (true) {
    if (tokens_.AtOperator("|")) {
      BUTTRESS_ASSIGN_OR_RETURN(operand, Filter(operand));
    } else if (tokens_.AtName("is")) {
      BUTTRESS_ASSIGN_OR_RETURN(operand, Test(operand));
    } else if (tokens_.AtOperator("(")) {
      BUTTRESS_ASSIGN_OR_RETURN(operand, Call(operand));
    } else {
      return operand;
    }
  }
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Filter(const JinjaExpression* operand) {
  JinjaExpression& filter = Make(Kind::kFilter, tokens_.Next().line);
  BUTTRESS_ASSIGN_OR_RETURN(filter.name, tokens_.ExpectAnyName());
  if (!IsJinjaFilter(filter.name)) {
    return JinjaErrorAt(filter.line, "filter '" + filter.name + "' is not supported");
  }
  filter.operands = {operand};
  if (tokens_.AtOperator("(")) BUTTRESS_RETURN_IF_ERROR(Arguments(filter));
  // In other places `safe` would make + and ~ escape HTML in their operands.
  if (filter.name == "safe" && !tokens_.At(JinjaToken::Kind::kOutputEnd)) {
    return JinjaErrorAt(
        filter.line,
        "filter 'safe' is supported at the end of {{ }} only, where it changes nothing");
  }
  return &filter;
}

JinjaExpressionParser::Parsed JinjaExpressionParser::Test(const JinjaExpression* operand) {
  JinjaExpression& test = Make(Kind::kTest, tokens_.Next().line);
  const bool negated = tokens_.SkipName("not");
  BUTTRESS_ASSIGN_OR_RETURN(test.name, tokens_.ExpectAnyName());
  if (!IsJinjaTest(test.name)) {
    return JinjaErrorAt(test.line, "test '" + test.name + "' is not supported");
  }
  test.operands = {operand};
  using TokenKind = JinjaToken::Kind;
  const bool keyword = tokens_.AtName("else") || tokens_.AtName("or") || tokens_.AtName("and");
  if (tokens_.AtOperator("(")) {
    BUTTRESS_RETURN_IF_ERROR(Arguments(test));
  } else if (!keyword && (tokens_.At(TokenKind::kName) || tokens_.At(TokenKind::kString) ||
                          tokens_.At(TokenKind::kInteger) || tokens_.At(TokenKind::kFloat) ||
                          tokens_.AtOperator("[") || tokens_.AtOperator("{"))) {
    if (tokens_.AtName("is")) {
      return JinjaErrorAt(tokens_.line(), "tests cannot be chained with 'is'");
    }
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaExpression* argument, Primary());
    BUTTRESS_ASSIGN_OR_RETURN(argument, Postfix(argument));
    test.arguments = {argument};
  }
  if (!negated) return &test;
  JinjaExpression& negation = Make(Kind::kNot, test.line);
  negation.operands = {&test};
  return &negation;
}

}  // namespace buttress
