// Runs a parsed template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/jinja/builtins.h"
#include "lib/jinja/syntax.h"
#include "lib/jinja/value.h"

namespace buttress {

// The names that are visible in a part of a template: its own, then those of the enclosing parts.
struct JinjaScope {
  const JinjaScope* parent = nullptr;
  JinjaEntries names;

  const JinjaValue* Find(std::string_view name) const;

  void Set(std::string_view name, JinjaValue value) { SetEntry(names, name, std::move(value)); }
};

// Renders a template once. Depth, steps, bytes of intermediate texts and output are bounded.
//
// Thread safety: none.
class JinjaEvaluator {
 public:
  // `globals` is the input of the template.
  explicit JinjaEvaluator(JinjaScope globals) : globals_(std::move(globals)) {}

  // Returns the output, or kInvalidArgument or kResourceExhausted with the line.
  Result<std::string> Render(const JinjaProgram& program);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Statements (run_statement.cc).
  Result<Flow> Run(const JinjaStatement::Body& body, JinjaScope& scope, std::string& out);
  Result<Flow> RunStatement(const JinjaStatement& statement, JinjaScope& scope, std::string& out);
  Result<Flow> RunIf(const JinjaStatement& statement, JinjaScope& scope, std::string& out);
  Result<Flow> RunFor(const JinjaStatement& statement, JinjaScope& scope, std::string& out);
  Result<std::vector<JinjaValue>> LoopItems(const JinjaStatement& statement, JinjaScope& scope);
  Result<std::string> RunInOwnScope(const JinjaStatement& statement, JinjaScope& scope);
  Status Output(const JinjaStatement& statement, JinjaScope& scope, std::string& out);
  Status Append(std::string_view text, std::string& out);
  Status Assign(const JinjaTarget& target, JinjaValue value, JinjaScope& scope);
  Status AssignAttribute(const JinjaTarget& target, JinjaValue value, JinjaScope& scope);

  // Expressions (evaluate_expression.cc).
  Result<JinjaValue> Evaluate(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateKind(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateName(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateDict(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateSlice(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateComparison(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateLogic(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateCall(const JinjaExpression& expression, const JinjaScope& scope);
  Result<std::vector<JinjaValue>> EvaluateAll(const std::vector<const JinjaExpression*>& list,
                                              const JinjaScope& scope);
  Result<JinjaArguments> EvaluateArguments(const JinjaExpression& expression,
                                           const JinjaScope& scope);
  Result<JinjaValue> CallFunction(JinjaFunction function, const JinjaArguments& arguments);
  Result<JinjaValue> CallMacro(const JinjaStatement& macro, const JinjaArguments& arguments);
  Result<JinjaValue> Range(const JinjaArguments& arguments) const;

  Status CheckBounds(const JinjaValue& value);
  Status Locate(int line, const Status& status);
  // Counts a step, and fails if it is one too many or too deep.
  Status CountStep();

  JinjaScope globals_;
  int depth_ = 0;
  std::int64_t steps_ = 0;
  std::size_t text_bytes_ = 0;
  bool located_ = false;  // the error that is being returned names its line
};

}  // namespace buttress
