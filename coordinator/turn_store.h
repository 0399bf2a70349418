// Makes the turns of the coordinator durable, and pauses the run while the disk has no room.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/coordinator_metrics.h"
#include "coordinator/disk_pause.h"
#include "coordinator/scheduler.h"
#include "coordinator/turn.h"
#include "lib/base/clock.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// Changes that the disk had no room for are kept and written first once it has; the scheduler is
// ahead of the ledger until then. Not thread-safe.
class TurnStore {
 public:
  struct Parts {
    Ledger& ledger;
    PayloadStore& payloads;
    const Scheduler& scheduler;
    CoordinatorMetrics& metrics;
    const Clock& clock;
    DiskPause pause;
    bool keep_payloads = false;  // of settled groups
    CollapseCounts last_plan;    // collapse of the newest plan in the ledger
  };

  explicit TurnStore(Parts parts) : parts_(std::move(parts)) {}

  bool paused() const { return parts_.pause.paused(); }

  // Returns why the run is paused; empty if it is not.
  const std::string& why_paused() const { return parts_.pause.why(); }

  // Returns how long the run stays paused at least.
  std::int64_t pause_ms() const;

  // Returns OK if the next turn can be written. PausedStatus if the disk has no room; any other
  // error must end the process.
  Status EnsureRoom();

  // Makes the payloads and changes of `turn` durable. PausedStatus if the disk has no room; any
  // other error must end the process.
  Status Write(Turn& turn);

  const CollapseCounts& last_plan() const { return parts_.last_plan; }

 private:
  Status Sync(const Turn& turn);
  // Begins or prolongs a pause and returns why.
  Status Pause(const Status& full);
  // Does what follows from changes that are durable.
  void NoteWritten(const LedgerChanges& changes);
  void DeleteSettledPayloads();

  Parts parts_;
  LedgerChanges unwritten_;  // of the turn that found the disk full
};

}  // namespace buttress
