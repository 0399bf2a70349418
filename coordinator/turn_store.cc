#include "coordinator/turn_store.h"

#include <algorithm>
#include <utility>

#include "lib/base/failpoint.h"
#include "lib/base/log.h"
#include "lib/rpc/paused.h"

namespace buttress {

std::int64_t TurnStore::pause_ms() const {
  return std::max<std::int64_t>(parts_.pause.next_try_ms() - parts_.clock.MonotonicMs(), 0);
}

Status TurnStore::EnsureRoom() {
  DiskPause& pause = parts_.pause;
  const std::int64_t now_ms = parts_.clock.MonotonicMs();
  if (!pause.paused()) return pause.Check(now_ms) ? PausedStatus(pause.why()) : OkStatus();
  if (!pause.MayTry(now_ms)) return PausedStatus(pause.why());
  Status status = parts_.payloads.CheckRoom();
  if (status.ok()) status = parts_.ledger.Write(unwritten_);
  if (status.code() == StatusCode::kResourceExhausted) return Pause(status);
  BUTTRESS_RETURN_IF_ERROR(status);
  NoteWritten(std::exchange(unwritten_, {}));
  pause.End(now_ms);
  return status;
}

Status TurnStore::Write(Turn& turn) {
  Status status = turn.changes.empty() ? OkStatus() : Sync(turn);
  if (status.code() == StatusCode::kResourceExhausted) {
    unwritten_ = std::move(turn.changes);
    return Pause(status);
  }
  BUTTRESS_RETURN_IF_ERROR(status);
  NoteWritten(turn.changes);
  // The turn itself is durable, so its calls are answered.
  if (!turn.full.ok()) Pause(turn.full).IgnoreError();
  return OkStatus();
}

Status TurnStore::Sync(const Turn& turn) {
  const double begin = MonotonicSeconds();
  Status status = turn.payloads_appended ? parts_.payloads.Sync() : OkStatus();
  if (status.ok()) {
    Failpoint("before_commit");
    status = parts_.ledger.Write(turn.changes);
  }
  const double seconds = MonotonicSeconds() - begin;
  parts_.metrics.store_commit_seconds.Observe(seconds);
  turn.reports.ledger_seconds += seconds;
  (status.ok() ? parts_.metrics.store_commits : parts_.metrics.store_errors).Increment();
  return status.Annotate("writing the ledger");
}

Status TurnStore::Pause(const Status& full) {
  parts_.pause.Begin(full, parts_.clock.MonotonicMs());
  return PausedStatus(parts_.pause.why());
}

void TurnStore::NoteWritten(const LedgerChanges& changes) {
  if (!changes.empty()) Failpoint("after_commit");
  if (!changes.plans.empty()) parts_.last_plan = changes.plans.back().collapse.step;
  if (!changes.checkpoints.empty() && !parts_.keep_payloads) DeleteSettledPayloads();
}

void TurnStore::DeleteSettledPayloads() {
  // PayloadStore::Open expects the segment of the last reference, whether it is needed or not.
  const std::uint64_t last = parts_.ledger.payload_end().segment;
  const Status status =
      parts_.payloads.DeleteBefore(std::min(parts_.scheduler.FirstNeededSegment(), last)).status();
  if (!status.ok())
    Log(kWarn, "payloads of settled groups could not be deleted", {{"error", status.ToString()}});
}

}  // namespace buttress
