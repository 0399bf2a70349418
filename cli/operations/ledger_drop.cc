// `buttress ledger drop DIR GROUP --reason TEXT`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/operations/drop.h"
#include "cli/operations/ledger_commands.h"

namespace buttress {
namespace {

std::string DropJson(const DroppedGroup& dropped) {
  return nlohmann::ordered_json{{"group", dropped.group.group_id},
                                {"state", GroupStateName(dropped.group.state)},
                                {"step", dropped.group.step},
                                {"position", dropped.group.position},
                                {"evidence", dropped.evidence}}
             .dump() +
         "\n";
}

std::string DropText(const DroppedGroup& dropped) {
  const GroupRow& group = dropped.group;
  std::string text =
      fmt::format("group {} was {} and is dropped\n", group.group_id, GroupStateName(group.state));
  if (group.step != 0) {
    text += fmt::format(
        "its place in the plan of step {} goes to the first group that is ready; the learner "
        "continues from its checkpoint before that step\n",
        group.step);
  }
  if (!dropped.evidence.empty()) text += "its record is kept in " + dropped.evidence + "\n";
  return text + "start the run again\n";
}

}  // namespace

std::function<Status()> AddLedgerDrop(CLI::App& app) {
  const auto request = std::make_shared<DropRequest>();
  const auto json = std::make_shared<bool>(false);
  app.add_option("dir", request->folder, "run folder; nothing of the run may be going on")
      ->required();
  app.add_option("group", request->group_id, "group id")->required();
  app.add_option("--reason", request->reason, "why; the audit and explain show it")->required();
  app.add_option("--learner", request->learner_folder,
                 "local.out of the learner, if it is another folder");
  app.add_flag("--json", *json, "print one JSON object");
  return [request, json]() -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const DroppedGroup dropped, DropGroup(*request));
    std::fputs((*json ? DropJson(dropped) : DropText(dropped)).c_str(), stdout);
    return OkStatus();
  };
}

}  // namespace buttress
