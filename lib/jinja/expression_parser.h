// Parses the expressions of a template.
#pragma once

#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/jinja/syntax.h"
#include "lib/jinja/token_reader.h"

namespace buttress {

// Thread safety: none.
class JinjaExpressionParser {
 public:
  using Parsed = Result<const JinjaExpression*>;

  // Both must outlive the parser.
  JinjaExpressionParser(JinjaTokenReader& tokens, JinjaProgram& program)
      : tokens_(tokens), program_(program) {}

  Parsed Expression();

  // Parses an expression without a conditional `if` at its end, which belongs to the for loop.
  Parsed ExpressionWithoutCondition();

  // Parses an expression; `a, b` is a tuple.
  Parsed ExpressionOrTuple();

 private:
  using Kind = JinjaExpression::Kind;

  // Counts nested calls and refuses a depth that could exhaust the stack.
  class Level;

  JinjaExpression& Make(Kind kind, int line);
  Parsed Or();
  Parsed And();
  Parsed Not();
  Parsed Compare();
  Parsed Sum();
  Parsed Concatenation();
  Parsed Product();
  Parsed Sign(bool with_filters);
  Parsed Primary();
  Parsed NameOrConstant();
  Parsed Text();
  Parsed Number();
  Parsed Parentheses();
  Parsed List();
  Parsed Dict();
  Parsed Postfix(const JinjaExpression* operand);
  Parsed Attribute(const JinjaExpression* operand);
  Parsed Subscript(const JinjaExpression* operand);
  Parsed Call(const JinjaExpression* operand);
  Parsed FiltersAndTests(const JinjaExpression* operand);
  Parsed Filter(const JinjaExpression* operand);
  Parsed Test(const JinjaExpression* operand);
  Status Arguments(JinjaExpression& call);
  Result<std::string> ComparisonOperator();

  JinjaTokenReader& tokens_;
  JinjaProgram& program_;
  int level_ = 0;
};

}  // namespace buttress
