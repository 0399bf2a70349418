// Parses the expressions of a template.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "lib/jinja/lexer.h"
#include "lib/jinja/syntax.h"

namespace buttress {

// Recursive descent: a function for each rule of the grammar. Errors stay in `tokens`; after one,
// the expressions may lack operands. Thread safety: none.
class JinjaExpressionParser {
 public:
  using Parsed = const JinjaExpression*;

  // Both must outlive the parser.
  JinjaExpressionParser(JinjaTokenReader& tokens, JinjaProgram& program)
      : tokens_(tokens), program_(program) {}

  Parsed Expression();

  // Parses an expression without a conditional `if` at its end, which belongs to the for loop.
  Parsed ExpressionWithoutCondition() { return Or(); }

  // Parses an expression; `a, b` is a tuple.
  Parsed ExpressionOrTuple();

 private:
  using Kind = JinjaExpression::Kind;
  using Rule = Parsed (JinjaExpressionParser::*)();

  JinjaExpression& Make(Kind kind, int line);
  // Fails at a depth that could exhaust the stack, and returns whether it does.
  bool TooDeep();
  Parsed JoinedBy(std::initializer_list<std::string_view> operators, Kind kind, Rule operand);
  Parsed Or();
  Parsed And();
  Parsed Not();
  Parsed Compare();
  Parsed Sum();
  Parsed Concatenation();
  Parsed Product();
  Parsed Factor();
  Parsed Sign();
  Parsed Primary();
  Parsed NameOrConstant();
  Parsed Text();
  Parsed Number();
  Parsed Parentheses();
  Parsed List();
  Parsed Dict();
  Parsed Postfix(Parsed operand);
  Parsed Attribute(Parsed operand);
  Parsed Subscript(Parsed operand);
  Parsed Call(Parsed operand);
  Parsed Filter(Parsed operand);
  Parsed Test(Parsed operand);
  void Arguments(JinjaExpression& call);
  // Consumes a comparison operator; returns an empty name if there is none.
  std::string ComparisonOperator();

  JinjaTokenReader& tokens_;
  JinjaProgram& program_;
  int level_ = 0;
};

}  // namespace buttress
