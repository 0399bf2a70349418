#include "cli/understand/run_audit.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/keep/run_folder.h"
#include "cli/output.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/lineage_rows.h"
#include "lib/ledger/payload_store.h"
#include "lib/ledger/segment_file.h"

namespace buttress {
namespace {

bool HasEnded(const GroupRow& group) {
  return group.state == GroupState::kSettled || group.state == GroupState::kDropped;
}

// An accepted group whose payload is to be read.
struct Stored {
  std::uint64_t group_id = 0;
  std::string sha256;
  PayloadRef payload;
};

struct BadPayload {
  std::uint64_t group_id = 0;
  Status why;
};

// Reads `stored` in the order of the files. Returns those that cannot be read or have another
// digest than the ledger.
std::vector<BadPayload> ReadPayloads(const std::string& folder, std::vector<Stored> stored,
                                     RunAudit& audit) {
  std::ranges::sort(stored, {}, [](const Stored& group) {
    return std::tuple(group.payload.segment, group.payload.offset);
  });
  const PayloadReader payloads(folder);
  std::vector<BadPayload> bad;
  for (const Stored& group : stored) {
    const Result<std::string> payload = payloads.Read(group.payload);
    if (!payload.ok()) {
      bad.push_back({group.group_id, payload.status()});
    } else if (Sha256Of(*payload) != group.sha256) {
      bad.push_back({group.group_id, DataLoss("the payload has another digest than the ledger")});
    } else {
      ++audit.payloads;
      audit.payload_bytes += static_cast<std::int64_t>(payload->size());
    }
  }
  return bad;
}

// Reports the groups that still need their payload. In a live run a segment is deleted once its
// groups have ended, which may be after the rows were read.
Status ReportPayloads(const std::string& ledger, const std::vector<BadPayload>& bad,
                      RunAudit& audit) {
  if (bad.empty()) return OkStatus();
  std::vector<std::uint64_t> ids;
  for (const BadPayload& payload : bad) ids.push_back(payload.group_id);
  BUTTRESS_ASSIGN_OR_RETURN(const auto reader, LedgerReader::Open(ledger));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> records, reader->GroupsById(ids));
  std::map<std::uint64_t, GroupRow> rows;
  for (const GroupRecord& record : records) rows[record.group.group_id] = record.group;
  for (const BadPayload& payload : bad) {
    const GroupRow& group = rows[payload.group_id];
    const bool ended = HasEnded(group);
    // A group that the newest checkpoint holds.
    const bool trained =
        group.state == GroupState::kTrained && group.step <= audit.run->checkpoint_step;
    if (ended && payload.why.code() == StatusCode::kNotFound) {
      ++audit.deleted;
      continue;
    }
    const std::string step = group.step == 0 ? "" : fmt::format(" of step {}", group.step);
    audit.ledger.findings.push_back(
        {"payload",
         fmt::format("group {}{} is {}: {}{}", group.group_id, step, GroupStateName(group.state),
                     payload.why.message(),
                     ended     ? "; training needs it no more"
                     : trained ? "; only a learner that loses its newest checkpoint needs it"
                               : "; put the file back from a copy, or another group takes its "
                                 "place"),
         {payload.group_id},
         ended || trained});
  }
  return OkStatus();
}

void AddCheckpointFinding(std::string what, bool accounted, RunAudit& audit) {
  audit.ledger.findings.push_back({"checkpoint", std::move(what), {}, accounted});
}

// Verifies checkpoints from the newest to the first whole one, as a learner that starts. A learner
// that writes deletes the oldest, so a folder that vanishes is listed again.
void FindCheckpoint(const std::string& folder, RunAudit& audit) {
  std::vector<std::string> damaged;
  for (int attempt = 0; attempt < 3; ++attempt) {
    damaged.clear();
    bool vanished = false;
    for (const std::int64_t step : CheckpointSteps(folder)) {
      auto checkpoint = VerifyCheckpoint(CheckpointFolderOf(folder, step));
      if (checkpoint.ok() && checkpoint->step == step) {
        audit.checkpoint = *std::move(checkpoint);
        break;
      }
      vanished = checkpoint.status().code() == StatusCode::kNotFound;
      if (vanished) break;
      damaged.push_back(checkpoint.ok() ? fmt::format("its state names step {}", checkpoint->step)
                                        : checkpoint.status().message());
    }
    if (!vanished) break;
  }
  const std::int64_t start = audit.checkpoint ? audit.checkpoint->step : 0;
  const bool accounted = static_cast<std::uint64_t>(start) >= audit.run->settled_step;
  for (const std::string& what : damaged) AddCheckpointFinding(what, accounted, audit);
}

// Checks that the learner may start from the checkpoint that was found. `audit.run` is older than
// the checkpoint, and `reader` is newer.
Status CheckCheckpoint(LedgerReader& reader, RunAudit& audit) {
  const std::uint64_t settled = audit.run->settled_step;
  if (!audit.checkpoint) {
    if (settled > 0)
      AddCheckpointFinding(fmt::format("no checkpoint is whole; step {} is settled", settled),
                           false, audit);
    return OkStatus();
  }
  const CheckpointIdentity& found = *audit.checkpoint;
  const auto step = static_cast<std::uint64_t>(found.step);
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, reader.Run());
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<LearnerRow> learners, reader.Learners());
  if (found.run_id != run->run_id) {
    AddCheckpointFinding(
        fmt::format("the newest whole checkpoint is of run {}; the ledger is of {}", found.run_id,
                    run->run_id),
        false, audit);
  } else if (step < settled) {
    AddCheckpointFinding(
        fmt::format("the newest whole checkpoint is of step {}; step {} is settled", step, settled),
        false, audit);
  } else if (WasReplaced({found.learner_epoch, step, ""}, learners)) {
    AddCheckpointFinding(
        fmt::format("the newest checkpoint is {}:{} (epoch:step), of a learner that was replaced; "
                    "the next learner passes it over",
                    found.learner_epoch, step),
        true, audit);
  } else if (step > run->committed_step || found.learner_epoch > run->learner_epoch) {
    AddCheckpointFinding(
        fmt::format("the newest checkpoint is {}:{} (epoch:step); the ledger has committed {}:{}",
                    found.learner_epoch, step, run->learner_epoch, run->committed_step),
        false, audit);
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<CheckpointRow> rows, reader.Checkpoints());
  for (const CheckpointRow& row : rows) {
    const bool same = row.learner_epoch == found.learner_epoch && row.step == step;
    if (!same || row.digest == found.digest) continue;
    AddCheckpointFinding(
        fmt::format("the checkpoint of step {} has digest {}; the ledger names {}", step,
                    ToHex(found.digest).substr(0, 12), ToHex(row.digest).substr(0, 12)),
        false, audit);
  }
  return OkStatus();
}

}  // namespace

Result<RunAudit> AuditRun(const std::string& folder, const std::string& learner_folder) {
  const std::string ledger = JoinPath(folder, "ledger.db");
  const std::string payloads = JoinPath(folder, "payloads");
  RunAudit audit;
  std::vector<Stored> stored;
  {
    BUTTRESS_ASSIGN_OR_RETURN(const auto reader, LedgerReader::Open(ledger));
    BUTTRESS_ASSIGN_OR_RETURN(audit.run, reader->Run());
    const auto segments = SegmentSizes(payloads);
    const auto visit = [&](const GroupRecord& record) {
      if (!record.accepted) return;
      const PayloadRef& payload = record.accepted->payload;
      if (HasEnded(record.group) && (!segments.ok() || !segments->contains(payload.segment))) {
        ++audit.deleted;
      } else {
        stored.push_back({record.group.group_id, record.accepted->content_sha256, payload});
      }
    };
    BUTTRESS_ASSIGN_OR_RETURN(audit.ledger, AuditLedger(*reader, visit));
  }
  if (!audit.run) return audit;
  const std::vector<BadPayload> bad = ReadPayloads(payloads, std::move(stored), audit);
  BUTTRESS_RETURN_IF_ERROR(ReportPayloads(ledger, bad, audit));
  if (learner_folder.empty() && !HasLearner(folder)) {
    AddCheckpointFinding("the learner's files are elsewhere; name their folder with --learner",
                         true, audit);
    return audit;
  }
  FindCheckpoint(JoinPath(learner_folder.empty() ? folder : learner_folder, "checkpoint"), audit);
  BUTTRESS_ASSIGN_OR_RETURN(const auto later, LedgerReader::Open(ledger));
  BUTTRESS_RETURN_IF_ERROR(CheckCheckpoint(*later, audit));
  return audit;
}

namespace {

using nlohmann::ordered_json;

struct AuditFlags {
  std::string folder;
  std::string learner;
  bool json = false;
};

std::string AuditJson(const RunAudit& audit) {
  ordered_json json;
  json["run"] = audit.run ? ordered_json(audit.run->run_name) : ordered_json();
  json["groups"] = audit.ledger.groups;
  json["dropped"] = audit.ledger.dropped;
  if (audit.run) {
    json["planned_step"] = audit.run->planned_step;
    json["committed_step"] = audit.run->committed_step;
    json["checkpoint_step"] = audit.run->checkpoint_step;
    json["settled_step"] = audit.run->settled_step;
    json["finished"] = audit.run->finished;
  }
  json["payloads"] = {
      {"read", audit.payloads}, {"bytes", audit.payload_bytes}, {"deleted", audit.deleted}};
  if (audit.checkpoint) {
    json["checkpoint"] = {{"step", audit.checkpoint->step},
                          {"learner_epoch", audit.checkpoint->learner_epoch},
                          {"digest", ToHex(audit.checkpoint->digest)}};
  }
  json["reported"] = CountsJson(audit.ledger.reported);
  json["recounted"] = CountsJson(audit.ledger.recounted);
  json["findings"] = ordered_json::array();
  for (const AuditFinding& finding : audit.ledger.findings) {
    json["findings"].push_back({{"kind", finding.kind},
                                {"groups", finding.group_ids},
                                {"what", finding.what},
                                {"accounted", finding.accounted}});
  }
  json["lost"] = audit.ledger.violations().size();
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string AuditText(const RunAudit& audit) {
  if (!audit.run) return "the coordinator has not started the run yet\n";
  const RunRow& run = *audit.run;
  const CollapseCounts& counts = audit.ledger.recounted;
  std::string text = fmt::format("run {}: step {} planned, {} trained, {} settled{}\n",
                                 run.run_name, run.planned_step, run.committed_step,
                                 run.settled_step, run.finished ? "; finished" : "");
  text += fmt::format("groups: {}; dropped: {}\n", CountsText(audit.ledger.groups),
                      CountsText(audit.ledger.dropped));
  text += fmt::format("payloads: {} read, {} bytes; {} deleted after their groups had ended\n",
                      audit.payloads, audit.payload_bytes, audit.deleted);
  text += audit.checkpoint ? fmt::format("checkpoint: step {}, {}\n", audit.checkpoint->step,
                                         ToHex(audit.checkpoint->digest).substr(0, 12))
                           : std::string("checkpoint: none\n");
  text += fmt::format("ACR {:.4f} = {} of {} groups, recounted from their outcomes\n", counts.acr(),
                      counts.constant(), counts.constant() + counts.mixed);
  for (const AuditFinding& finding : audit.ledger.findings)
    text += fmt::format("{:<9} {:<10} {}\n", finding.accounted ? "accounted" : "LOST", finding.kind,
                        finding.what);
  return text;
}

Status RunAuditCommand(const AuditFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const RunAudit audit, AuditRun(flags.folder, flags.learner));
  std::fputs((flags.json ? AuditJson(audit) : AuditText(audit)).c_str(), stdout);
  const std::size_t lost = audit.ledger.violations().size();
  if (lost == 0) {
    if (!flags.json) std::puts("everything that was acknowledged is accounted for");
    return OkStatus();
  }
  return DataLoss(
      fmt::format("{} findings are not accounted for; \"The ledger of a run\" in "
                  "docs/run_folders.md says what to do",
                  lost));
}

}  // namespace

std::function<Status()> AddLedgerAudit(CLI::App& app) {
  const auto flags = std::make_shared<AuditFlags>();
  app.add_option("dir", flags->folder, "run folder; the run may be running")->required();
  app.add_option("--learner", flags->learner,
                 "local.out of the learner, if it is another folder, to check its checkpoint");
  app.add_flag("--json", flags->json, "print one JSON object");
  app.footer("Exit code 0: all is well, or all damage is accounted for. 4: something is lost.");
  return [flags] { return RunAuditCommand(*flags); };
}

}  // namespace buttress
