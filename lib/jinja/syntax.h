// The parsed form of a template, and the parser that makes it.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
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

// The target of an assignment or a loop: names, or an attribute of one name.
struct JinjaTarget {
  std::vector<std::string> names;
  bool unpacks = false;   // `a, b`: each name receives one item of the value
  std::string attribute;  // not empty: this attribute of the namespace names[0]
};

struct JinjaStatement {
  using Body = std::vector<const JinjaStatement*>;

  enum class Kind {
    kText,      // text
    kOutput,    // {{ value }}
    kIf,        // branches, else_body
    kFor,       // target, value, condition, body, else_body
    kSet,       // target = value
    kSetBlock,  // target = the output of body
    kMacro,     // text(parameters): body
    kScope,     // body, in a scope of its own (generation)
    kBreak,
    kContinue,
  };

  struct Branch {
    const JinjaExpression* condition = nullptr;
    Body body;
  };

  struct Parameter {
    std::string name;
    const JinjaExpression* absent = nullptr;  // the default value; null: undefined
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

// Owns all nodes in flat containers, so that destruction does not recurse.
struct JinjaProgram {
  std::deque<JinjaExpression> expressions;
  std::deque<JinjaStatement> statements;
  JinjaStatement::Body body;
};

// Parses a template: the grammar of Jinja 3.1 without inheritance, imports, call, with, filter and
// autoescape. Returns kInvalidArgument with the line and the construct. REQUIRES: valid UTF-8.
Result<JinjaProgram> ParseJinja(std::string_view source);

}  // namespace buttress
