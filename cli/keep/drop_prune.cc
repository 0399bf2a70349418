#include "cli/keep/drop_prune.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "cli/command.h"
#include "cli/keep/run_folder.h"
#include "cli/output.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/lineage_rows.h"
#include "lib/ledger/payload_store.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/segment_file.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

Status CheckMayDrop(const DropRequest& request) {
  if (request.reason.empty())
    return InvalidArgument("--reason is empty; the audit names it as the account of the group");
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config,
                            LoadRunConfig(StoredConfigPath(request.folder), {}));
  if (!config.run.deterministic) return OkStatus();
  return InvalidArgument(
      "run.deterministic is set: with another group in its place the run could not be repeated; "
      "put the damaged file back from a copy, or restore a backup");
}

// Says why a group cannot be dropped that is not under way.
Status HasEnded(const DropRequest& request) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto reader,
                            LedgerReader::Open(JoinPath(request.folder, "ledger.db")));
  const std::uint64_t ids[] = {request.group_id};
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> records, reader->GroupsById(ids));
  if (records.empty())
    return InvalidArgument(fmt::format("{} has no group {}", request.folder, request.group_id));
  return InvalidArgument(
      fmt::format("group {} is {}: training needs it no more, so there is "
                  "nothing to drop",
                  request.group_id, GroupStateName(records[0].group.state)));
}

// A checkpoint that contains the group settles it when the learner starts from it.
Status CheckIsTrainedAgain(const GroupRow& group, const std::vector<LearnerRow>& learners,
                           const std::string& learner_folder) {
  if (group.state != GroupState::kTrained) return OkStatus();
  const std::string folder = JoinPath(learner_folder, "checkpoint");
  for (const std::int64_t step : CheckpointSteps(folder)) {
    if (static_cast<std::uint64_t>(step) < group.step) break;
    const auto found = VerifyCheckpoint(CheckpointFolderOf(folder, step));
    const auto named = static_cast<std::uint64_t>(step);
    if (!found.ok() || WasReplaced({found->learner_epoch, named, ""}, learners)) continue;
    return InvalidArgument(fmt::format(
        "the checkpoint of step {} contains group {} of step {}, so its payload is not needed; "
        "start the run again",
        step, group.group_id, group.step));
  }
  return OkStatus();
}

LedgerChanges ChangesOf(const GroupRow& group, const RunRow& run, const std::string& reason) {
  LedgerChanges changes;
  changes.groups = {group};
  GroupRow& dropped = changes.groups[0];
  dropped.state = GroupState::kDropped;
  dropped.reason = DropReason::kDamaged;
  dropped.holds_slot = false;
  changes.drops = {{group.group_id, group.step, group.position, 0, reason}};
  // The next learner epoch fences a learner that has trained the plan and does not know better.
  changes.run = run;
  if (group.step != 0) ++changes.run->learner_epoch;
  return changes;
}

std::string DropJson(const DroppedGroup& dropped) {
  return JsonLine({{"group", dropped.group.group_id},
                   {"state", GroupStateName(dropped.group.state)},
                   {"step", dropped.group.step},
                   {"position", dropped.group.position},
                   {"evidence", dropped.evidence}});
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

struct PruneFlags {
  std::string folder;
  bool dry_run = false;
  bool json = false;
};

Status Prune(const PruneFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const PrunedPayloads pruned,
                            PrunePayloads(flags.folder, flags.dry_run));
  if (flags.json) {
    PrintJson({{"dry_run", flags.dry_run},
               {"segments", pruned.segments},
               {"bytes", pruned.bytes},
               {"groups", pruned.groups}});
    return OkStatus();
  }
  fmt::print("{} {} segments with {} bytes: the tokens of {} groups that are settled or dropped\n",
             flags.dry_run ? "would delete" : "deleted", pruned.segments, pruned.bytes,
             pruned.groups);
  fmt::print("`ledger show` has no texts of these groups; explain reads rows and loses nothing\n");
  return OkStatus();
}

}  // namespace

Result<DroppedGroup> DropGroup(const DropRequest& request) {
  const std::string learner_folder =
      request.learner_folder.empty() ? request.folder : request.learner_folder;
  const std::string path = JoinPath(request.folder, "ledger.db");
  if (::access(path.c_str(), F_OK) != 0)
    return NotFound(path + ": no such file; name the folder of a run");
  BUTTRESS_RETURN_IF_ERROR(CheckMayDrop(request));
  BUTTRESS_RETURN_IF_ERROR(CheckIsStopped(request.folder, learner_folder, "drop the group"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Ledger> ledger, Ledger::Open(path));
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerSnapshot snapshot, ledger->Load());
  const auto group = snapshot.groups.find(request.group_id);
  if (group == snapshot.groups.end()) return HasEnded(request);
  DroppedGroup dropped{group->second, ""};
  BUTTRESS_RETURN_IF_ERROR(CheckIsTrainedAgain(dropped.group, snapshot.learners, learner_folder));
  const auto accepted = snapshot.accepted.find(request.group_id);
  if (accepted != snapshot.accepted.end()) {
    const PayloadReader payloads(JoinPath(request.folder, "payloads"));
    BUTTRESS_ASSIGN_OR_RETURN(dropped.evidence,
                              payloads.KeepEvidence(request.group_id, accepted->second.payload));
  }
  LedgerChanges changes = ChangesOf(dropped.group, *snapshot.run, request.reason);
  if (accepted != snapshot.accepted.end()) {
    changes.ended_tokens = snapshot.ended_tokens;
    changes.ended_tokens->stale += TokensOf(*accepted->second.head);
  }
  BUTTRESS_RETURN_IF_ERROR(ledger->Write(changes));
  return dropped;
}

std::function<Status()> AddLedgerDrop(CLI::App& app) {
  const auto request = std::make_shared<DropRequest>();
  const auto json = std::make_shared<bool>(false);
  app.add_option("dir", request->folder, "run folder; nothing of the run may be running")
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

Result<PrunedPayloads> PrunePayloads(const std::string& folder, bool dry_run) {
  struct Content {
    std::int64_t ended = 0;
    bool needed = false;
  };

  std::map<std::uint64_t, Content> segments;
  PayloadEnd end;
  {
    BUTTRESS_ASSIGN_OR_RETURN(const auto reader, LedgerReader::Open(JoinPath(folder, "ledger.db")));
    BUTTRESS_RETURN_IF_ERROR(reader->ForEachGroup([&](const GroupRecord& record) {
      if (!record.accepted) return;
      Content& segment = segments[record.accepted->payload.segment];
      const GroupState state = record.group.state;
      const bool ended = state == GroupState::kSettled || state == GroupState::kDropped;
      ended ? void(++segment.ended) : void(segment.needed = true);
    }));
    BUTTRESS_ASSIGN_OR_RETURN(end, reader->EndOfPayloads());
  }
  const std::string payloads = JoinPath(folder, "payloads");
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(payloads));
  PrunedPayloads pruned;
  for (const auto& [number, segment] : segments) {
    const auto size = sizes.find(number);
    if (segment.needed || size == sizes.end()) continue;
    // A coordinator that runs may be writing to the newest one.
    if (number >= end.segment || number == sizes.rbegin()->first) continue;
    std::error_code error;
    if (!dry_run) std::filesystem::remove(SegmentPath(payloads, number), error);
    if (error) return Unavailable(SegmentPath(payloads, number) + ": " + error.message());
    ++pruned.segments;
    pruned.bytes += static_cast<std::int64_t>(size->second);
    pruned.groups += segment.ended;
  }
  if (!dry_run) BUTTRESS_RETURN_IF_ERROR(SyncFolder(payloads));
  return pruned;
}

std::function<Status()> AddLedgerPrune(CLI::App& app) {
  const auto flags = std::make_shared<PruneFlags>();
  app.add_option("dir", flags->folder, "run folder; the run may be running")->required();
  app.add_flag("--dry-run", flags->dry_run, "say what would be deleted, and delete nothing");
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return Prune(*flags); };
}

}  // namespace buttress
