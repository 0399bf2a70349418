// Runs statements.
#include <absl/cleanup/cleanup.h>
#include <fmt/core.h>

#include <algorithm>

#include "lib/jinja/evaluator.h"
#include "lib/jinja/print.h"

namespace buttress {

using StatementKind = JinjaStatement::Kind;

namespace {

// The depth of nested evaluations, including macros.
constexpr int kDepthMax = 400;
constexpr std::int64_t kStepsMax = 2'000'000;

}  // namespace

const JinjaValue* JinjaScope::Find(std::string_view name) const {
  for (const JinjaScope* scope = this; scope != nullptr; scope = scope->parent) {
    if (const JinjaValue* value = FindEntry(scope->names, name); value != nullptr) return value;
  }
  return nullptr;
}

Result<std::string> JinjaEvaluator::Render(const JinjaProgram& program) {
  std::string out;
  BUTTRESS_RETURN_IF_ERROR(Run(program.body, globals_, out).status());
  return out;
}

Status JinjaEvaluator::Locate(int line, const Status& status) {
  if (located_) return status;
  located_ = true;
  return status.Annotate("chat template, line " + std::to_string(line));
}

Status JinjaEvaluator::CountStep() {
  if (depth_ > kDepthMax) {
    return ResourceExhausted("expressions or macros nested deeper than " +
                             std::to_string(kDepthMax) + " levels");
  }
  if (++steps_ <= kStepsMax) return OkStatus();
  return ResourceExhausted("the template takes more than " + std::to_string(kStepsMax) + " steps");
}

Result<JinjaEvaluator::Flow> JinjaEvaluator::Run(const JinjaStatement::Body& body,
                                                 JinjaScope& scope, std::string& out) {
  ++depth_;
  const absl::Cleanup leave = [this] { --depth_; };
  for (const JinjaStatement* statement : body) {
    if (const Status counted = CountStep(); !counted.ok()) return Locate(statement->line, counted);
    Result<Flow> flow = RunStatement(*statement, scope, out);
    if (!flow.ok()) return Locate(statement->line, flow.status());
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<JinjaEvaluator::Flow> JinjaEvaluator::RunStatement(const JinjaStatement& statement,
                                                          JinjaScope& scope, std::string& out) {
  switch (statement.kind) {
    case StatementKind::kText:
      BUTTRESS_RETURN_IF_ERROR(Append(statement.text, out));
      break;
    case StatementKind::kOutput:
      BUTTRESS_RETURN_IF_ERROR(Output(statement, scope, out));
      break;
    case StatementKind::kIf:
      return RunIf(statement, scope, out);
    case StatementKind::kFor:
      return RunFor(statement, scope, out);
    case StatementKind::kSet: {
      BUTTRESS_ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*statement.value, scope));
      BUTTRESS_RETURN_IF_ERROR(Assign(statement.target, std::move(value), scope));
      break;
    }
    case StatementKind::kSetBlock: {
      BUTTRESS_ASSIGN_OR_RETURN(std::string text, RunInOwnScope(statement, scope));
      BUTTRESS_RETURN_IF_ERROR(Assign(statement.target, JinjaValue::Text(std::move(text)), scope));
      break;
    }
    case StatementKind::kMacro:
      scope.Set(statement.text, JinjaValue(&statement));
      break;
    case StatementKind::kScope: {
      BUTTRESS_ASSIGN_OR_RETURN(const std::string text, RunInOwnScope(statement, scope));
      BUTTRESS_RETURN_IF_ERROR(Append(text, out));
      break;
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Status JinjaEvaluator::Append(std::string_view text, std::string& out) {
  if (text.size() > kJinjaTextBytesMax - std::min(out.size(), kJinjaTextBytesMax)) {
    return ResourceExhausted("the output is longer than " + std::to_string(kJinjaTextBytesMax) +
                             " bytes");
  }
  out += text;
  return OkStatus();
}

Status JinjaEvaluator::Output(const JinjaStatement& statement, JinjaScope& scope,
                              std::string& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*statement.value, scope));
  if (value.is_text()) return Append(value.text(), out);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(value));
  return Append(text, out);
}

Result<std::string> JinjaEvaluator::RunInOwnScope(const JinjaStatement& statement,
                                                  JinjaScope& scope) {
  JinjaScope own{.parent = &scope, .names = {}};
  std::string text;
  BUTTRESS_RETURN_IF_ERROR(Run(statement.body, own, text).status());
  return text;
}

Result<JinjaEvaluator::Flow> JinjaEvaluator::RunIf(const JinjaStatement& statement,
                                                   JinjaScope& scope, std::string& out) {
  for (const JinjaStatement::Branch& branch : statement.branches) {
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue holds, Evaluate(*branch.condition, scope));
    if (holds.Truthy()) return Run(branch.body, scope, out);
  }
  return Run(statement.else_body, scope, out);
}

// Returns the items that satisfy the condition of the loop, so that `loop` counts only these.
Result<std::vector<JinjaValue>> JinjaEvaluator::LoopItems(const JinjaStatement& statement,
                                                          JinjaScope& scope) {
  BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue iterable, Evaluate(*statement.value, scope));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaIterate(iterable));
  if (statement.condition == nullptr) return items;
  std::vector<JinjaValue> kept;
  for (JinjaValue& item : items) {
    JinjaScope own{.parent = &scope, .names = {}};
    BUTTRESS_RETURN_IF_ERROR(Assign(statement.target, item, own));
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue holds, Evaluate(*statement.condition, own));
    if (holds.Truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

Result<JinjaEvaluator::Flow> JinjaEvaluator::RunFor(const JinjaStatement& statement,
                                                    JinjaScope& scope, std::string& out) {
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> items, LoopItems(statement, scope));
  if (items.empty()) return Run(statement.else_body, scope, out);
  const auto loop =
      std::make_shared<JinjaLoop>(JinjaLoop{.items = JinjaValue::List(std::move(items))});
  const std::size_t count = loop->items.items().size();
  for (loop->index = 0; loop->index < count; ++loop->index) {
    BUTTRESS_RETURN_IF_ERROR(CountStep());
    // Names that the body sets exist for one iteration.
    JinjaScope own{.parent = &scope, .names = {{"loop", JinjaValue(loop)}}};
    BUTTRESS_RETURN_IF_ERROR(Assign(statement.target, loop->items.items()[loop->index], own));
    BUTTRESS_ASSIGN_OR_RETURN(const Flow flow, Run(statement.body, own, out));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Status JinjaEvaluator::Assign(const JinjaTarget& target, JinjaValue value, JinjaScope& scope) {
  if (!target.attribute.empty()) return AssignAttribute(target, std::move(value), scope);
  if (!target.unpacks) {
    scope.Set(target.names[0], std::move(value));
    return OkStatus();
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(value));
  if (items.size() != target.names.size()) {
    return InvalidArgument(
        fmt::format("{} values for {} names", items.size(), target.names.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) scope.Set(target.names[i], items[i]);
  return OkStatus();
}

Status JinjaEvaluator::AssignAttribute(const JinjaTarget& target, JinjaValue value,
                                       JinjaScope& scope) {
  const JinjaValue* object = scope.Find(target.names[0]);
  if (object == nullptr || !object->Is<std::shared_ptr<JinjaNamespace>>()) {
    return InvalidArgument("'" + target.names[0] +
                           "' is not a namespace; only a namespace's attributes can be set");
  }
  if (target.attribute.starts_with("_")) {
    return InvalidArgument("attribute '" + target.attribute + "' is not allowed in a template");
  }
  if (value.nesting() >= kJinjaNestingMax) {
    return InvalidArgument("a namespace can hold neither a namespace nor values nested that deep");
  }
  SetEntry(object->As<std::shared_ptr<JinjaNamespace>>()->entries, target.attribute,
           std::move(value));
  return OkStatus();
}

}  // namespace buttress
