// Makes the turns of the coordinator durable, and pauses the run while the disk has no room.
//
// The run pauses when the disk has less than kPauseBelowBytes left or when a write finds it full,
// and resumes at kResumeAtBytes. The room between is for the ledger: a pause begins while SQLite
// can still commit, so that as a rule nothing waits in memory to be written. What the disk had no
// room for is kept and written first once it has; the scheduler is ahead of the ledger until then.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/coordinator_metrics.h"
#include "coordinator/loop/turn.h"
#include "coordinator/schedule/scheduler.h"
#include "coordinator/standby/mirror.h"
#include "lib/base/os/clock.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

inline constexpr std::uint64_t kPauseBelowBytes = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kResumeAtBytes = std::uint64_t{32} << 20;

// The disk of a run.
struct RunDisk {
  std::string folder;  // for messages
  // Returns the free bytes; nullopt if the system does not say, which counts as enough.
  std::function<std::optional<std::uint64_t>()> free_bytes;
};

// Not thread-safe.
class TurnStore {
 public:
  struct Parts {
    Ledger& ledger;
    PayloadStore& payloads;
    const Scheduler& scheduler;
    CoordinatorMetrics& metrics;
    const Clock& clock;
    RunDisk disk;
    bool keep_payloads = false;       // of settled groups
    CollapseCounts last_plan;         // collapse of the newest plan in the ledger
    std::uint64_t archive_steps = 0;  // steps of which the groups go to archives together; 0: never
    Mirror* mirror = nullptr;         // for a standby; null: none may follow
    std::function<void()> while_waiting = {};  // called while a turn waits for the standby
  };

  explicit TurnStore(Parts parts) : parts_(std::move(parts)) {}

  bool paused() const { return !why_paused_.empty(); }

  // Returns why the run is paused; empty if it is not.
  const std::string& why_paused() const { return why_paused_; }

  // Returns how long the run stays paused at least.
  std::int64_t pause_ms() const;

  // Returns OK if the next turn can be written. PausedStatus if the disk has no room; any other
  // error must end the process.
  Status EnsureRoom();

  // Makes the payloads and changes of `turn` durable, here and with a synchronous standby.
  // PausedStatus if the disk has no room; any other error must end the process.
  Status Write(Turn& turn);

  // Moves groups that have ended to an archive, after a checkpoint: as many as one turn has time
  // for. What fails is tried again after the next checkpoint. Call it when the turn is answered.
  void ArchiveEnded();

  const CollapseCounts& last_plan() const { return parts_.last_plan; }

 private:
  Status Sync(const Turn& turn);
  // Writes `changes`, behind the payloads that they name, for the standby as well.
  Status WriteLedger(const LedgerChanges& changes);
  bool HasFree(std::uint64_t bytes) const;
  // Begins or prolongs a pause, because of the error of a write if there was one, and returns why.
  Status Pause(const std::string& error);
  void Resume();
  // Does what follows from changes that are durable.
  void NoteWritten(const LedgerChanges& changes);
  void DeleteSettledPayloads();

  Parts parts_;
  LedgerChanges unwritten_;  // of the turn that found the disk full
  std::string why_paused_;
  std::string error_;             // of the write that found the disk full
  std::int64_t paused_ms_ = 0;    // when the pause began
  std::int64_t next_try_ms_ = 0;  // of a write
  bool may_archive_ = false;      // since the last checkpoint
  bool awaited_standby_ = false;  // since the process started
  bool is_archiving_ = false;     // more groups of the same steps are to follow
};

}  // namespace buttress
