#include "coordinator/loop/turn_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/base/os/failpoint.h"
#include "lib/base/report/log.h"
#include "lib/rpc/run_state.h"

namespace buttress {

namespace {

constexpr std::int64_t kRetryMs = 1000;
// Groups that go to an archive in a turn, during which no call is answered.
constexpr std::int64_t kArchivedAtOnce = 16384;

double MiB(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::int64_t TurnStore::pause_ms() const {
  return std::max<std::int64_t>(next_try_ms_ - parts_.clock.MonotonicMs(), 0);
}

Status TurnStore::EnsureRoom() {
  if (!paused()) return HasFree(kPauseBelowBytes) ? OkStatus() : Pause("");
  if (pause_ms() > 0) return PausedStatus(why_paused_);
  if (!HasFree(kResumeAtBytes)) return Pause(error_);
  Status status = parts_.payloads.CheckRoom();
  if (status.ok()) status = WriteLedger(unwritten_);
  if (status.code() == StatusCode::kResourceExhausted) return Pause(status.message());
  BUTTRESS_RETURN_IF_ERROR(status);
  NoteWritten(std::exchange(unwritten_, {}));
  Resume();
  return status;
}

Status TurnStore::Write(Turn& turn) {
  if (parts_.mirror != nullptr) parts_.mirror->Report();
  Status status = turn.changes.empty() ? OkStatus() : Sync(turn);
  if (status.code() == StatusCode::kResourceExhausted) {
    unwritten_ = std::move(turn.changes);
    return Pause(status.message());
  }
  BUTTRESS_RETURN_IF_ERROR(status);
  // Before its first answer a process awaits a standby even where it has changed nothing: the
  // answer may rest on a turn of the process before, which the standby may lack.
  if (parts_.mirror != nullptr && !std::exchange(awaited_standby_, true))
    parts_.mirror->AwaitStandby(parts_.while_waiting);
  NoteWritten(turn.changes);
  // The turn itself is durable, so its calls are answered.
  if (!turn.full.ok()) Pause(turn.full.message()).IgnoreError();
  return OkStatus();
}

Status TurnStore::Sync(const Turn& turn) {
  const double begin = MonotonicSeconds();
  Status status = turn.payloads_appended ? parts_.payloads.Sync() : OkStatus();
  if (status.ok()) {
    Failpoint("before_commit");
    status = WriteLedger(turn.changes);
  }
  const double seconds = MonotonicSeconds() - begin;
  parts_.metrics.store_commit_seconds.Observe(seconds);
  turn.reports.ledger_seconds += seconds;
  (status.ok() ? parts_.metrics.store_commits : parts_.metrics.store_errors).Increment();
  return status.Annotate("writing the ledger");
}

Status TurnStore::WriteLedger(const LedgerChanges& changes) {
  if (parts_.mirror != nullptr) parts_.mirror->PayloadsSynced();
  BUTTRESS_RETURN_IF_ERROR(parts_.ledger.Write(changes));
  if (parts_.mirror != nullptr) parts_.mirror->EndTurn(parts_.while_waiting);
  return OkStatus();
}

bool TurnStore::HasFree(std::uint64_t bytes) const {
  const auto free = parts_.disk.free_bytes();
  return !free || *free >= bytes;
}

Status TurnStore::Pause(const std::string& error) {
  const bool begins = !paused();
  const std::uint64_t free = parts_.disk.free_bytes().value_or(0);
  next_try_ms_ = parts_.clock.MonotonicMs() + kRetryMs;
  error_ = error;
  why_paused_ = fmt::format(
      "disk full: {} has {:.1f} MiB free; free space up to {:.0f} MiB, and the run continues by "
      "itself{}",
      parts_.disk.folder, MiB(free), MiB(kResumeAtBytes), error.empty() ? "" : " (" + error + ")");
  if (begins) {
    paused_ms_ = parts_.clock.MonotonicMs();
    parts_.metrics.paused.Set(1);
    Log(kWarn, "the run is paused",
        {{"why", "disk full"},
         {"folder", parts_.disk.folder},
         {"free_bytes", free},
         {"needed_bytes", kResumeAtBytes},
         {"error", error}});
  }
  return PausedStatus(why_paused_);
}

void TurnStore::Resume() {
  Log(kWarn, "the disk has room again; the run continues",
      {{"folder", parts_.disk.folder}, {"paused_ms", parts_.clock.MonotonicMs() - paused_ms_}});
  why_paused_.clear();
  error_.clear();
  parts_.metrics.paused.Set(0);
}

void TurnStore::NoteWritten(const LedgerChanges& changes) {
  if (!changes.empty()) Failpoint("after_commit");
  for (const WorkerOrderRow& order : changes.orders) {
    Log(order.order == WorkerOrder::kNone ? kInfo : kWarn, "order to a worker",
        {{"worker", order.worker_id},
         {"order", WorkerOrderName(order.order)},
         {"reason", order.reason}});
  }
  if (!changes.plans.empty()) parts_.last_plan = changes.plans.back().collapse.step;
  if (changes.checkpoints.empty()) return;
  may_archive_ = parts_.archive_steps > 0;
  if (!parts_.keep_payloads) DeleteSettledPayloads();
}

void TurnStore::ArchiveEnded() {
  if (!may_archive_ || paused()) return;
  const double begin = MonotonicSeconds();
  const auto archived = parts_.ledger.Archive(is_archiving_ ? 0 : parts_.archive_steps,
                                              kArchivedAtOnce, [this](const std::string& path) {
                                                if (parts_.mirror != nullptr)
                                                  parts_.mirror->Archived(path);
                                              });
  is_archiving_ = may_archive_ = archived.ok() && *archived == kArchivedAtOnce;
  if (!archived.ok()) {
    Log(kWarn, "groups that have ended could not be archived; they stay in the database",
        {{"error", archived.status().ToString()}});
  } else if (*archived > 0) {
    Log(kInfo, "groups that have ended are in an archive",
        {{"groups", *archived}, {"seconds", MonotonicSeconds() - begin}});
  }
}

void TurnStore::DeleteSettledPayloads() {
  // PayloadStore::Open expects the segment of the last reference, whether it is needed or not.
  const std::uint64_t last = parts_.ledger.payload_end().segment;
  const std::uint64_t first_kept = std::min(parts_.scheduler.FirstNeededSegment(), last);
  const Status status = parts_.payloads.DeleteBefore(first_kept).status();
  if (status.ok() && parts_.mirror != nullptr) parts_.mirror->PayloadsDeleted(first_kept);
  if (!status.ok())
    Log(kWarn, "payloads of settled groups could not be deleted", {{"error", status.ToString()}});
}

}  // namespace buttress
