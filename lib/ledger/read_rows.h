// Reads rows of the ledger's tables and checks their checksums, for the coordinator's restart and
// for LedgerReader. A `where` is an SQL condition written in this library, never text from outside.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/ledger/database.h"
#include "lib/ledger/rows.h"

namespace buttress {

// kFailedPrecondition if the file is not a ledger of this version; the message names `path`.
Status CheckLedgerFile(Database& database, const std::string& path);

Result<std::optional<RunRow>> ReadRun(Database& database);

// By id. kDataLoss for an unknown state or reason.
Result<std::map<std::uint64_t, GroupRow>> ReadGroups(Database& database, const std::string& where);

// By id; `where` may name columns of `groups`. A row without its checksum gives a damaged group.
Result<std::map<std::uint64_t, AcceptedGroup>> ReadAccepted(Database& database,
                                                            const std::string& where);

// By step.
Result<std::map<std::uint64_t, PlanRow>> ReadPlans(Database& database, const std::string& where);

// By row of the dataset.
Result<std::vector<PromptHistory>> ReadHistories(Database& database);
Result<std::map<std::string, CollapseCounts>> ReadCollapse(Database& database);

// Of the newest planned step and the kRecentSteps steps before.
Result<RecentCollapse> ReadRecentCollapse(Database& database);

// Of the newest accepted groups of a source.
Result<RecentDifficulty> ReadDifficulty(Database& database, const std::string& source);

// Of the prompts of groups that are under way, by row of the dataset.
Result<std::map<std::uint64_t, PromptRecord>> ReadPromptRecords(Database& database);

// Returns a whole row of prompt_records.
Result<PromptRecord> ReadRecord(const Statement& row);

// Returns the kept counts of the prompts that were passed over, by reason.
Result<std::map<std::string, SkipCounts>> ReadSkipped(Database& database);

// The end of the last payload, those of groups that an operator gave up aside.
Result<PayloadEnd> ReadPayloadEnd(Database& database);

// By group id.
Result<std::vector<DropRow>> ReadDrops(Database& database);

// nullopt for a run that began with its start model.
Result<std::optional<OriginRow>> ReadOrigin(Database& database);

// By learner epoch, then step; checkpoints from `first_step` on.
Result<std::vector<LearnerRow>> ReadLearners(Database& database);
Result<std::vector<CommitRow>> ReadCommits(Database& database);
Result<std::vector<CheckpointRow>> ReadCheckpoints(Database& database, std::uint64_t first_step);

// Of the learner with this epoch; nullopt if it did not end the run.
Result<std::optional<EarlyEndRow>> ReadEarlyEnd(Database& database, std::uint64_t learner_epoch);

// LedgerSnapshot::followers.
Result<std::map<std::uint64_t, EndedGroup>> ReadFollowers(Database& database);

// By coordinator epoch.
Result<std::vector<StartRow>> ReadStarts(Database& database);

// The newest `limit` announced versions, oldest first.
Result<std::vector<PolicyVersion>> ReadVersions(Database& database, std::uint64_t limit);

// By worker id.
Result<std::map<std::string, WorkerOrderRow>> ReadWorkerOrders(Database& database);

// The version that was announced last; nullopt before the first.
Result<std::optional<ManifestRow>> ReadNewestManifest(Database& database);

// ContentTag of the settled and the replaced groups with ids from `first_id` on, by id.
Result<std::map<std::uint64_t, std::uint64_t>> ReadEndedTags(Database& database,
                                                             std::uint64_t first_id);

// Returns the kept counts of the groups that have ended.
Result<EndedCounts> ReadEnded(Database& database);

// Returns the rows of all tables that do not have their checksum, as "row '12' of groups".
Result<std::vector<std::string>> ReadDamagedRows(Database& database);

}  // namespace buttress
