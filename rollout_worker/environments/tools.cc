#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/verify/extract.h"
#include "rollout_worker/environments/environments.h"
#include "rollout_worker/environments/tool.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Tool {
  const ToolRow* row = nullptr;
  ToolFunction run;
};

// What all episodes share. Immutable.
struct ToolBox {
  std::vector<Tool> tools;
  ordered_json descriptions = ordered_json::array();
  std::size_t max_result_bytes = 0;
};

std::string NamesOf(const ToolBox& box) {
  std::string names;
  for (const Tool& tool : box.tools)
    names += (names.empty() ? "" : ", ") + std::string(tool.row->name);
  return names;
}

std::string Shortened(std::string text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const std::string note = fmt::format("\n[cut off: {} bytes in all]", text.size());
  return std::string(FirstBytes(text, max_bytes - std::min(note.size(), max_bytes))) + note;
}

class ToolsEnvironment : public Environment {
 public:
  ToolsEnvironment(std::shared_ptr<const ToolBox> box, ordered_json opening)
      : box_(std::move(box)), opening_(std::move(opening)) {}

  ordered_json messages() const override { return opening_; }

  ordered_json tools() const override { return box_->descriptions; }

  Result<EnvironmentReply> Reply(const AssistantMessage& answer,
                                 std::int64_t deadline_ms) override {
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(deadline_ms);
    EnvironmentReply reply;
    for (const ToolCall& call : answer.calls) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      BUTTRESS_ASSIGN_OR_RETURN(ToolResult result,
                                Run(call, std::max<std::int64_t>(left.count(), 0)));
      Add(call.name, std::move(result), reply);
    }
    for (const std::string& reason : answer.bad)
      Add("", {"error: " + reason + "; the tools are " + NamesOf(*box_), true}, reply);
    return reply;
  }

 private:
  Result<ToolResult> Run(const ToolCall& call, std::int64_t deadline_ms) const {
    const auto tool = std::ranges::find_if(
        box_->tools, [&](const Tool& candidate) { return candidate.row->name == call.name; });
    if (tool == box_->tools.end())
      return ToolResult{"error: no such tool; the tools are " + NamesOf(*box_), true};
    const auto argument = call.arguments.find(std::string(tool->row->parameter));
    if (argument == call.arguments.end() || !argument->is_string())
      return ToolResult{fmt::format("error: {} takes the argument \"{}\", a text", call.name,
                                    tool->row->parameter),
                        true};
    return tool->run(argument->get_ref<const std::string&>(), deadline_ms);
  }

  // Templates of Mistral's want identifiers of nine letters and digits.
  void Add(const std::string& name, ToolResult result, EnvironmentReply& reply) {
    reply.tools.push_back(name);
    reply.failed_tools += result.failed ? 1 : 0;
    reply.messages.push_back(
        {{"role", "tool"},
         {"name", name},
         {"tool_call_id", fmt::format("call{:05}", ++results_ % 100000)},
         {"content", Shortened(std::move(result.text), box_->max_result_bytes)}});
  }

  const std::shared_ptr<const ToolBox> box_;
  const ordered_json opening_;
  std::int64_t results_ = 0;
};

class ToolsEnvironments : public EnvironmentFactory {
 public:
  explicit ToolsEnvironments(std::shared_ptr<const ToolBox> box) : box_(std::move(box)) {}

  Result<std::unique_ptr<Environment>> Make(const EpisodeTask& task,
                                            std::uint64_t /*seed*/) const override {
    BUTTRESS_ASSIGN_OR_RETURN(const ordered_json row, RowOf(task));
    BUTTRESS_ASSIGN_OR_RETURN(ordered_json opening, OpeningOf(row));
    return std::unique_ptr<Environment>(
        std::make_unique<ToolsEnvironment>(box_, std::move(opening)));
  }

 private:
  const std::shared_ptr<const ToolBox> box_;
};

}  // namespace

Result<std::unique_ptr<EnvironmentFactory>> MakeToolsEnvironments(const RunSettings& run) {
  auto box = std::make_shared<ToolBox>();
  box->max_result_bytes = static_cast<std::size_t>(run.env.max_result_bytes);
  for (const std::string& name : run.env.tools) {
    const std::span<const ToolRow> rows = ToolRows();
    const auto row = std::ranges::find(rows, name, &ToolRow::name);
    const bool again = std::ranges::count(run.env.tools, name) > 1;
    if (row == rows.end() || again)
      return InvalidArgument(
          fmt::format("run.env.tools has '{}'{}; expected some of calculator, python, search", name,
                      again ? " twice" : ""));
    BUTTRESS_ASSIGN_OR_RETURN(ToolFunction function, row->make(run));
    box->tools.push_back({&*row, std::move(function)});
    box->descriptions.push_back(DescriptionOf(*row));
  }
  if (box->tools.empty())
    return InvalidArgument("run.env.tools is empty; expected some of calculator, python, search");
  return std::unique_ptr<EnvironmentFactory>(std::make_unique<ToolsEnvironments>(std::move(box)));
}

}  // namespace buttress
