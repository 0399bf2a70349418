// The faults of a run: what goes wrong, when, and with whom. A schedule follows from the seed
// alone, so that faults can be left out of it one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buttress::simulation {

enum class Fault : std::uint8_t {
  // Messages: the next `amount` calls of a process.
  kRequestLost,
  kAnswerLost,
  kDoubled,
  kDelayed,
  kCorrupted,  // a byte of a group flips
  kCut,        // a group ends in the middle
  kFetchCut,   // the stream of a plan's groups
  kPartition,  // nothing passes for some seconds
  // Processes.
  kCoordinatorKilled,
  kCoordinatorKilledInWrite,
  kKilledInArchive,
  kCoordinatorDrained,
  kCoordinatorPaused,
  kCoordinatorDoubled,  // a second one starts on its disk while it lives
  kWorkerKilled,
  kWorkerPaused,
  kWorkerDrained,
  kWorkerReplaced,  // another process starts under its id while it lives
  kLearnerKilled,
  kLearnerKilledInWrite,
  kLearnerPowerFailed,
  kLearnerPaused,
  kLearnerDoubled,  // a second learner starts while the first one lives
  kLearnerHangs,    // in its last checkpoint, which it completes after another one has started
  // Disks.
  kPowerFailed,
  kSyncFailed,
  kDiskFull,
  kPayloadDamaged,
  kPayloadsAway,       // the mount of the payloads is gone for a while
  kOlderDisk,          // the run folder is put back from a copy
  kCheckpointDamaged,  // the newest one
  kLedgerDamaged,      // a bit of the database or of its log flips
  kArchiveDamaged,     // a bit of an archive of the ledger flips
  // Clocks.
  kClockLeaps,
  kClockSet,
  kCallerClockLeaps,  // of a worker or the learner
  // Workers that are wrong.
  kWorkerSlow,
  kWorkerSick,    // samples from weights that nobody published
  kWorkerBroken,  // submits what was not leased
  kWorkerOfOtherRun,
  // Operators.
  kCordon,
  kDrainOrder,
  kMaxAge,
  kStop,
  kEarlyEnd,  // the learner ends the run, and it is taken up again
  kDrop,      // stops the run and gives up a group
  kPrune,     // deletes segments that nobody needs
  // The standby of the coordinator.
  kStandbyKilled,
  kStandbyCut,
  kStandbyDamaged,   // a record on its way
  kCoordinatorLost,  // with its disk: an operator starts one on the standby's folder
  kCoordinatorBack,  // the same, but the lost one comes back: some callers reach it for a while
};

inline constexpr std::array<std::string_view, 52> kFaultNames = {
    "request lost",
    "answer lost",
    "call doubled",
    "call delayed",
    "group corrupted",
    "group cut",
    "stream of groups cut",
    "partition",
    "coordinator killed",
    "coordinator killed in a write",
    "coordinator killed in an archive",
    "coordinator drained",
    "coordinator paused",
    "coordinator doubled",
    "worker killed",
    "worker paused",
    "worker drained",
    "worker replaced",
    "learner killed",
    "learner killed in a write",
    "learner's power failed",
    "learner paused",
    "learner doubled",
    "learner hangs",
    "power failed",
    "sync failed",
    "disk full",
    "payload damaged",
    "payloads away",
    "older disk",
    "checkpoint damaged",
    "ledger damaged",
    "archive damaged",
    "clock leaps",
    "clock set",
    "clock of a caller leaps",
    "worker slow",
    "worker sick",
    "worker broken",
    "worker of another run",
    "cordon",
    "drain order",
    "max age ordered",
    "stop",
    "early end",
    "ledger drop",
    "ledger prune",
    "standby killed",
    "standby cut off",
    "standby record damaged",
    "coordinator lost",
    "lost coordinator comes back",
};

inline std::string_view NameOf(Fault fault) { return kFaultNames[static_cast<std::size_t>(fault)]; }

struct ScheduledFault {
  std::int64_t at_ms = 0;
  Fault fault = Fault::kRequestLost;
  std::uint64_t target = 0;  // a number, of which who is meant takes the remainder
  std::int64_t amount = 0;   // of messages, milliseconds, calls of the disk

  std::string Text() const;
};

// Returns the faults of a seed in their order, all before `end_ms`. Each seed has only some kinds,
// so that rare ones are not always disturbed by all others.
std::vector<ScheduledFault> MakeSchedule(std::uint64_t seed, std::int64_t end_ms);

}  // namespace buttress::simulation
