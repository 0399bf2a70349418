// `buttress ledger COMMAND DIR`: what the ledger of a run folder knows, and `show DIR GROUP`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/command.h"
#include "cli/output.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/experience/episode_ends.h"
#include "lib/experience/group.h"
#include "lib/samples/sample_reader.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct ShowFlags {
  std::string folder;
  std::uint64_t group_id = 0;
  std::string model;
  bool json = false;
};

ordered_json GroupJson(const GroupRow& group) {
  ordered_json json = {{"group", group.group_id},
                       {"state", GroupStateName(group.state)},
                       {"dropped", DropReasonName(group.reason)},
                       {"prompt", group.prompt.prompt_id},
                       {"source", group.prompt.source},
                       {"pass", group.prompt.pass},
                       {"dataset_row", group.prompt.row},
                       {"step", group.step},
                       {"position", group.position},
                       {"attempts", group.attempts},
                       {"lease_epoch", group.lease_epoch},
                       {"worker", group.worker_id},
                       {"oldest_allowed_version", ToString(group.min_version)},
                       {"newest_version_when_leased", ToString(group.granted_version)}};
  if (group.state != GroupState::kDropped) json.erase("dropped");
  return json;
}

ordered_json ContentJson(const AcceptedGroup& accepted) {
  const v1::GroupHead& head = *accepted.head;
  ordered_json json = {{"class", CollapseClassName(ClassOf(head))},
                       {"sha256", ToHex(accepted.content_sha256)},
                       {"prompt_tokens", head.prompt_tokens()},
                       {"history_before",
                        {{"correct", head.history().correct()},
                         {"scored", head.history().scored()},
                         {"recent_correct", head.history().recent_correct()},
                         {"recent_scored", head.history().recent_scored()}}}};
  for (const v1::PolicyVersion& version : head.versions())
    json["versions"].push_back(ToString({version.learner_epoch(), version.step(), ""}));
  int turn = 0;
  for (int i = 0; i < head.outcomes_size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto finish = static_cast<FinishReason>(head.finish_reasons(i));
    ordered_json completion = {
        {"outcome", OutcomeName(OutcomeOf(head, at))}, {"finish", FinishName(finish)},
        {"deciding_reward", head.raw_rewards(i)},      {"raw_reward", head.rewards(i)},
        {"components", ComponentsJson(head, at)},      {"tokens", head.lengths(i)},
        {"trained_tokens", head.trained_lengths(i)},   {"logprob_sum", head.logprob_sums(i)}};
    if (!head.parents().empty()) completion["parent"] = head.parents(i);
    if (!head.turns().empty()) {
      completion["sampled_tokens"] = head.sampled_lengths(i);
      completion["end"] = EpisodeEndName(head.episode_ends(i));
      const auto first = head.turn_rewards().begin() + turn;
      completion["turn_rewards"] = std::vector<double>(first, first + head.turns(i));
      turn += head.turns(i);
    }
    json["completions"].push_back(std::move(completion));
  }
  return json;
}

void AddText(const Tokenizer* tokenizer, std::span<const std::int32_t> tokens, ordered_json& json) {
  json["token_ids"] = tokens;
  if (tokenizer == nullptr) return;
  const Result<std::string> text = tokenizer->Decode(tokens, SpecialTokens::kKeep);
  json["text"] = text.ok() ? *text : text.status().message();
}

// Adds what the payload holds besides the rows; `json` is that of ContentJson.
void AddPayload(const ShowFlags& flags, const AcceptedGroup& accepted, ordered_json& json) {
  const PayloadReader payloads(JoinPath(flags.folder, "payloads"));
  ordered_json& state = json["payload"];
  state = {{"segment", accepted.payload.segment},
           {"offset", accepted.payload.offset},
           {"bytes", accepted.payload.bytes}};
  const Result<v1::Group> group = ReadPayload(payloads, accepted);
  if (!group.ok()) {
    const bool deleted = group.status().code() == StatusCode::kNotFound;
    state["state"] = deleted ? "deleted" : "damaged";
    if (!deleted) state["error"] = group.status().message();
    return;
  }
  state["state"] = "whole";
  const std::unique_ptr<Tokenizer> tokenizer = LoadRunTokenizer(flags.folder, flags.model);
  AddText(tokenizer.get(), PromptOf(*group), json["prompt_content"]);
  for (int i = 0; i < Completions(group->head()); ++i) {
    ordered_json& row = json["completions"][static_cast<std::size_t>(i)];
    AddText(tokenizer.get(), TokensOf(*group, i), row);
    if (const auto answer = ExtractedAnswerOf(*group, i); !answer.empty()) row["answer"] = answer;
    if (const auto why = UnscorableReasonOf(*group, i); !why.empty()) row["unscorable"] = why;
  }
}

// One line a field, and one a completion, without token ids.
std::string ShowText(const ordered_json& json) {
  std::string text;
  for (const auto& [name, value] : json.items()) {
    if (name != "completions") {
      ordered_json shown = value;
      if (shown.is_object()) shown.erase("token_ids");
      text += fmt::format("{:<27} {}", name,
                          shown.is_string() ? shown.get<std::string>() + "\n" : JsonLine(shown));
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      ordered_json completion = value[i];
      completion.erase("token_ids");
      text += fmt::format("completion {:<16} {}", i, JsonLine(completion));
    }
  }
  return text;
}

Status Show(const ShowFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto reader,
                            LedgerReader::Open(JoinPath(flags.folder, "ledger.db")));
  const std::uint64_t ids[] = {flags.group_id};
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> records, reader->GroupsById(ids));
  if (records.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, reader->Run());
    return InvalidArgument(fmt::format("{} has no group {}; its groups are 1 to {}", flags.folder,
                                       flags.group_id, run ? run->next_group_id - 1 : 0));
  }
  ordered_json json = GroupJson(records[0].group);
  if (records[0].accepted) {
    json.update(ContentJson(*records[0].accepted));
    AddPayload(flags, *records[0].accepted, json);
  }
  std::fputs((flags.json ? JsonLine(json) : ShowText(json)).c_str(), stdout);
  return OkStatus();
}

constexpr CommandEntry kLedgerCommands[] = {
    {"audit", "check that everything that was acknowledged is accounted for", AddLedgerAudit},
    {"show", "print everything that is known of a group", AddLedgerShow},
    {"drop", "give up a group whose payload is damaged for good", AddLedgerDrop},
    {"prune", "delete payloads that training needs no more", AddLedgerPrune},
};

}  // namespace

std::function<Status()> AddLedgerShow(CLI::App& app) {
  const auto flags = std::make_shared<ShowFlags>();
  app.add_option("dir", flags->folder, "run folder; the run may be running")->required();
  app.add_option("group", flags->group_id, "group id")->required();
  app.add_option("--model", flags->model,
                 "model folder whose tokenizer decodes the tokens [that of the run]");
  app.add_flag("--json", flags->json, "print one JSON object, with token ids");
  return [flags] { return Show(*flags); };
}

std::function<Status()> AddLedger(CLI::App& app) {
  app.require_subcommand(1);
  const auto chosen = std::make_shared<std::function<Status()>>();
  for (const CommandEntry& command : kLedgerCommands) {
    CLI::App& sub = *app.add_subcommand(command.name, command.summary);
    sub.callback([chosen, action = command.add(sub)] { *chosen = action; });
  }
  return [chosen] { return (*chosen)(); };
}

}  // namespace buttress
