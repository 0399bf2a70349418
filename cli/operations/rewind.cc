#include "cli/operations/rewind.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/operations/run_audit.h"
#include "cli/operations/stopped_run.h"
#include "lib/base/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/segment_file.h"
#include "lib/measure/steps_file.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

LedgerSays SaysOf(const LedgerSnapshot& snapshot) {
  LedgerSays says;
  says.run_id = snapshot.run->run_id;
  if (!snapshot.starts.empty()) says.start = snapshot.starts.back();
  says.checkpoint_step = snapshot.run->checkpoint_step;
  says.learner_epoch = snapshot.run->learner_epoch;
  return says;
}

// Whether the coordinator would let a learner start from it.
bool Known(const CheckpointIdentity& found, const LedgerSnapshot& snapshot) {
  const RunRow& run = *snapshot.run;
  const auto step = static_cast<std::uint64_t>(found.step);
  if (found.run_id != run.run_id || found.learner_epoch > run.learner_epoch) return false;
  if (step < run.settled_step || step > run.committed_step) return false;
  const bool abandoned = std::ranges::any_of(snapshot.learners, [&](const LearnerRow& learner) {
    return learner.learner_epoch > found.learner_epoch && learner.start_step < step;
  });
  return !abandoned && std::ranges::none_of(snapshot.checkpoints, [&](const CheckpointRow& row) {
    return row.learner_epoch == found.learner_epoch && row.step == step &&
           row.digest != found.digest;
  });
}

// SQLite takes whatever lies at <path>-wal for the log of `path` and writes its pages into it, an
// older copy as well, since neither file names the other. What comes out has tables and indexes
// that do not fit. Writes to neither file.
Status CheckLogOfLedger(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path + "-wal", error);
  if (error || bytes == 0) return OkStatus();
  const auto reader = LedgerReader::Open(path);
  const auto damage =
      reader.ok() ? (*reader)->DamageOfFile() : Result<std::vector<std::string>>(reader.status());
  if (damage.ok() && damage->empty()) return OkStatus();
  return DataLoss(fmt::format(
      "{0} and {0}-wal are not of one moment ({1}): the -wal is of another ledger, and would be "
      "written into this one, or the ledger is damaged; move {0}-wal and {0}-shm away, and try "
      "again",
      path, damage.ok() ? damage->front() : damage.status().message()));
}

Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return OkStatus();
  return Unavailable(fmt::format("cannot rename {} to {}: {}", from, to, error.message()));
}

// Counts the whole records of a segment from `offset` on.
Result<std::int64_t> RecordsFrom(const std::string& path, std::uint64_t offset,
                                 std::uint64_t size) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto segment, SegmentFile::Open(path, O_RDONLY));
  std::int64_t records = 0;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string header, segment->Read(offset, kPayloadHeaderBytes));
    const std::optional<RecordHead> head = HeadOf(header);
    if (!head) return records;
    offset += kPayloadHeaderBytes + head->bytes;
    if (offset > size) return records;
    ++records;
  }
}

}  // namespace

std::string Rewind::payloads() const { return JoinPath(request_.folder, "payloads"); }

std::string Rewind::checkpoints() const { return JoinPath(request_.learner_folder, "checkpoint"); }

Result<Rewind> Rewind::Plan(const RewindRequest& asked) {
  RewindRequest request = asked;
  if (request.learner_folder.empty()) request.learner_folder = request.folder;
  const std::string path = JoinPath(request.folder, "ledger.db");
  if (::access(path.c_str(), F_OK) != 0)
    return NotFound(path + ": no such file; name the folder of a run");
  if (!HasLearner(request.learner_folder)) {
    return InvalidArgument("the learner's files are not in " + request.learner_folder +
                           "; name their folder with --learner");
  }
  BUTTRESS_RETURN_IF_ERROR(CheckIsStopped(request.folder, request.learner_folder, "rewind it"));
  BUTTRESS_RETURN_IF_ERROR(CheckLogOfLedger(path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<LedgerMark> mark, ReadLedgerMark(path));
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<Ledger> ledger,
                            Ledger::Open(path, LedgerAge::kOlderToo));
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerSnapshot snapshot, ledger->Load());
  if (!snapshot.run)
    return InvalidArgument(path + " is empty: the coordinator has not started the run");
  Rewind rewind(std::move(request), std::move(ledger));
  rewind.run_ = *snapshot.run;
  if (mark) {
    rewind.loss_.older = OlderThanMark(*mark, SaysOf(snapshot));
    rewind.loss_.lost_step = mark->checkpoint_step;
  }
  rewind.learner_epoch_ = snapshot.run->learner_epoch;
  rewind.loss_.planned_step = snapshot.run->planned_step;
  BUTTRESS_RETURN_IF_ERROR(rewind.FindCheckpoint(snapshot));
  ++rewind.learner_epoch_;
  rewind.loss_.aside =
      JoinPath(rewind.request_.folder, "rewound-" + std::to_string(rewind.learner_epoch_));
  BUTTRESS_RETURN_IF_ERROR(rewind.FindLostSteps(snapshot));
  BUTTRESS_RETURN_IF_ERROR(rewind.FindLostGroups());
  if (rewind.loss_.needed()) BUTTRESS_RETURN_IF_ERROR(rewind.CheckPayloads(snapshot));
  return rewind;
}

// A learner skips damaged checkpoints, so those of steps that the ledger knows may stay.
Status Rewind::FindCheckpoint(const LedgerSnapshot& snapshot) {
  std::optional<std::uint64_t> newest;
  for (const std::int64_t step : CheckpointSteps(checkpoints())) {
    const std::string folder = CheckpointFolderOf(checkpoints(), step);
    const auto found = VerifyCheckpoint(folder);
    if (found.ok()) learner_epoch_ = std::max(learner_epoch_, found->learner_epoch);
    if (found.ok() && found->step == step && Known(*found, snapshot)) {
      newest = static_cast<std::uint64_t>(step);
      break;
    }
    if (found.ok() || static_cast<std::uint64_t>(step) > run_.committed_step)
      loss_.checkpoints.push_back(folder);
  }
  loss_.checkpoint_step = newest.value_or(0);
  if (newest || run_.settled_step == 0) return OkStatus();
  return InvalidArgument(fmt::format(
      "{} has no whole checkpoint that the ledger knows, of steps {} to {}: what was trained up to "
      "step {} cannot be trained again; restore a backup (`buttress restore`), or start a new run",
      checkpoints(), run_.settled_step, run_.committed_step, run_.settled_step));
}

Status Rewind::FindLostSteps(const LedgerSnapshot& snapshot) {
  loss_.lost_step = std::max(loss_.lost_step, snapshot.run->committed_step);
  for (const std::int64_t step : CheckpointSteps(checkpoints()))
    loss_.lost_step = std::max(loss_.lost_step, static_cast<std::uint64_t>(step));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps,
                            ReadSteps(JoinPath(request_.learner_folder, "steps.jsonl")));
  if (!steps.empty())
    loss_.lost_step = std::max(loss_.lost_step, static_cast<std::uint64_t>(steps.back().step));
  return OkStatus();
}

Status Rewind::FindLostGroups() {
  const PayloadEnd end = ledger_->payload_end();
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(payloads()));
  for (const auto& [segment, size] : sizes) {
    if (segment < end.segment) continue;
    const std::uint64_t offset = segment == end.segment ? end.offset : 0;
    if (offset >= size) continue;
    BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t records,
                              RecordsFrom(SegmentPath(payloads(), segment), offset, size));
    loss_.lost_groups += records;
  }
  return OkStatus();
}

// The newer coordinator may have deleted segments that were settled for it.
Status Rewind::CheckPayloads(const LedgerSnapshot& snapshot) {
  const PayloadEnd end = ledger_->payload_end();
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(payloads()));
  for (const auto& [id, accepted] : snapshot.accepted) {
    const GroupRow& group = snapshot.groups.at(id);
    if (group.step != 0 && group.step <= loss_.checkpoint_step) continue;
    const auto size = sizes.find(accepted.payload.segment);
    if (size == sizes.end() || size->second < accepted.payload.end().offset)
      ++loss_.missing_payloads;
  }
  const bool none =
      std::ranges::none_of(sizes, [&](const auto& entry) { return entry.first <= end.segment; });
  if (none && end.segment != 0) {
    return InvalidArgument(
        payloads() +
        " has no segment left that the ledger names; restore a backup (`buttress "
        "restore`), or start a new run");
  }
  if (loss_.missing_payloads == 0) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config,
                            LoadRunConfig(StoredConfigPath(request_.folder), {}));
  if (!config.run.deterministic) return OkStatus();
  return InvalidArgument(fmt::format(
      "run.deterministic is set, and the payloads of {} groups that the ledger needs are deleted: "
      "with others in their places the run could not be repeated; restore a backup",
      loss_.missing_payloads));
}

Status Rewind::Apply() {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(JoinPath(loss_.aside, "payloads")));
  LedgerChanges changes;
  changes.run = run_;
  changes.run->learner_epoch = learner_epoch_;
  changes.rewinds = {
      {learner_epoch_, loss_.checkpoint_step, loss_.lost_step, loss_.lost_groups, request_.reason}};
  BUTTRESS_RETURN_IF_ERROR(ledger_->Write(changes));
  BUTTRESS_RETURN_IF_ERROR(MovePayloads());
  BUTTRESS_RETURN_IF_ERROR(MoveCheckpoints());
  return ledger_->TakeMark();
}

// The coordinator cuts off what lies behind the ledger's last payload, so a copy of it is kept.
Status Rewind::MovePayloads() const {
  const PayloadEnd end = ledger_->payload_end();
  const std::string aside = JoinPath(loss_.aside, "payloads");
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(payloads()));
  for (const auto& [segment, size] : sizes) {
    const std::string path = SegmentPath(payloads(), segment);
    if (segment > end.segment) {
      BUTTRESS_RETURN_IF_ERROR(Rename(path, SegmentPath(aside, segment)));
    } else if (segment == end.segment && size > end.offset) {
      BUTTRESS_ASSIGN_OR_RETURN(const auto file, SegmentFile::Open(path, O_RDONLY));
      BUTTRESS_ASSIGN_OR_RETURN(const std::string rest, file->Read(end.offset, size - end.offset));
      BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(
          fmt::format("{}.from-{}", SegmentPath(aside, segment), end.offset), rest));
    }
  }
  BUTTRESS_RETURN_IF_ERROR(SyncFolder(aside));
  return SyncFolder(payloads());
}

Status Rewind::MoveCheckpoints() const {
  for (const std::string& folder : loss_.checkpoints) {
    const std::string name = fs::path(folder).filename().string();
    BUTTRESS_RETURN_IF_ERROR(Rename(
        folder, JoinPath(checkpoints(), fmt::format("rewound-{}-{}", learner_epoch_, name))));
  }
  return loss_.checkpoints.empty() ? OkStatus() : SyncFolder(checkpoints());
}

}  // namespace buttress
