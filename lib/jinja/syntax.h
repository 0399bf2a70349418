// What a template says, parsed.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "lib/jinja/value.h"

namespace buttress {

struct JinjaExpression {
  enum class Kind {
    kLiteral,      // literal
    kName,         // name
    kList,         // operands
    kTuple,        // operands
    kDict,         // operands: key, value, key, value, ...
    kAttribute,    // operands[0].name
    kItem,         // operands[0][operands[1]]
    kSlice,        // operands[0][operands[1]:operands[2]:operands[3]], null where absent
    kCall,         // operands[0](arguments...)
    kFilter,       // operands[0] | name(arguments...)
    kTest,         // operands[0] is name(arguments...)
    kNot,          // not operands[0]
    kSign,         // name is + or -
    kBinary,       // operands[0] name operands[1]: + - * / // % ~
    kCompare,      // operands[0] operators[0] operands[1] operators[1] operands[2] ...
    kAnd,          // operands[0] and operands[1]
    kOr,           // operands[0] or operands[1]
    kConditional,  // operands[0] if operands[1] else operands[2], null where absent
  };

  Kind kind = Kind::kLiteral;
  int line = 1;
  std::string name;
  JinjaValue literal;
  std::vector<const JinjaExpression*> operands;
  std::vector<const JinjaExpression*> arguments;
  std::vector<std::pair<std::string, const JinjaExpression*>> named_arguments;
  std::vector<std::string> operators;
};

// What an assignment or a loop fills: names, or one name's attribute.
struct JinjaTarget {
  std::vector<std::string> names;
  bool unpacks = false;   // `a, b`: the value's items go to the names
  std::string attribute;  // of the namespace names[0]
};

struct JinjaStatement {
  using Body = std::vector<const JinjaStatement*>;

  enum class Kind {
    kText,      // text
    kOutput,    // {{ value }}
    kIf,        // branches, else_body
    kFor,       // target, value, condition, body, else_body
    kSet,       // target = value
    kSetBlock,  // target = what body prints
    kMacro,     // text(parameters): body
    kScope,     // body in a scope of its own (generation)
    kBreak,
    kContinue,
  };

  struct Branch {
    const JinjaExpression* condition = nullptr;
    Body body;
  };

  struct Parameter {
    std::string name;
    const JinjaExpression* absent =
        nullptr;  // its value where the call gives none; null: undefined
  };

  Kind kind = Kind::kText;
  int line = 1;
  std::string text;
  JinjaTarget target;
  const JinjaExpression* value = nullptr;
  const JinjaExpression* condition = nullptr;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  Body body;
  Body else_body;
};

// Owns all nodes flat, so that destruction does not recurse.
struct JinjaProgram {
  std::deque<JinjaExpression> expressions;
  std::deque<JinjaStatement> statements;
  JinjaStatement::Body body;
};

}  // namespace buttress
