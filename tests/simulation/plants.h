// Faults planted on purpose, by name, so that a sweep shows that it would find them. Each is at a
// seam of the simulation: the disk, the transactions of the ledger, the calls between the loop and
// the scheduler, the network, what the simulation models of the learner. None is in the code under
// test.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace buttress::simulation {

enum class Plant : std::uint8_t {
  kNothing,
  kDatabaseSyncMissing,
  kPayloadSyncMissing,
  kFolderSyncMissing,
  kPayloadSyncAfterCommit,
  kEarlyAnswer,
  kAnswerAfterFailure,
  kTransactionSplit,
  kTransactionLost,
  kStartNotWritten,
  kCommitRowLost,
  kReturnedRowLost,
  kOrderLost,
  kSecretLost,
  kLearnerFenceLost,
  kDuplicateUnknown,
  kExpiryForgotten,
  kStalenessOffByOne,
  kWindowOffByOne,
  kPayloadDeletedEarly,
  kStallRuleLost,
  kSnapshotStale,
  kPlanStale,
  kPayloadStale,
  kSubmitFenceLost,
  kLineageLost,
  kVersionAhead,
  kShortWriteHidden,
  kLeaseRowLost,
  kCheckpointRowLost,
  kAccountLost,
  kLedgerDamageUnseen,
  kStaleSubmissionDrops,
  kReturnForgiven,
  kStandbySyncMissing,
  kStandbyNotAwaited,
  kArchiveSyncMissing,
  kArchiveNameNotSynced,
  kArchivedTooEarly,
  kFetchNotBegunAnew,
  kLedgerLockLost,
  kStartFenceLost,
  kCheckpointSyncMissing,
  kCheckpointNameNotSynced,
};

inline constexpr std::array<std::string_view, 44> kPlantNames = {
    "nothing",
    "database-sync-missing",
    "payload-sync-missing",
    "folder-sync-missing",
    "payload-sync-after-commit",
    "early-answer",
    "answer-after-failure",
    "transaction-split",
    "transaction-lost",
    "start-not-written",
    "commit-row-lost",
    "returned-row-lost",
    "order-lost",
    "secret-lost",
    "learner-fence-lost",
    "duplicate-unknown",
    "expiry-forgotten",
    "staleness-off-by-one",
    "window-off-by-one",
    "payload-deleted-early",
    "stall-rule-lost",
    "snapshot-stale",
    "plan-stale",
    "payload-stale",
    "submit-fence-lost",
    "lineage-lost",
    "version-ahead",
    "short-write-hidden",
    "lease-row-lost",
    "checkpoint-row-lost",
    "account-lost",
    "ledger-damage-unseen",
    "stale-submission-drops",
    "return-forgiven",
    "standby-sync-missing",
    "standby-not-awaited",
    "archive-sync-missing",
    "archive-name-not-synced",
    "archived-too-early",
    "fetch-not-begun-anew",
    "ledger-lock-lost",
    "start-fence-lost",
    "checkpoint-sync-missing",
    "checkpoint-name-not-synced",
};

std::optional<Plant> PlantOf(std::string_view name);

// The one that is planted in this process.
void SetPlant(Plant plant);
bool Planted(Plant plant);

}  // namespace buttress::simulation
