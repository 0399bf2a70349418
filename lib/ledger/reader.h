// Reads a ledger, also while its coordinator runs: for its restart, explain, audit, backup and
// tests. Groups that have ended may be in archives (archive.h); every call that names groups reads
// both. kDataLoss names a damaged page of the ledger, or an archive that is missing or damaged.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/ledger/archive.h"
#include "lib/ledger/ledger_lock.h"
#include "lib/ledger/rows.h"

namespace buttress {

// A drawn prompt and, if its group was accepted, the content.
struct GroupRecord {
  GroupRow group;
  std::optional<AcceptedGroup> accepted;
};

// The step at which an accepted group counts: that of its plan or, without one, the step after the
// newest version at its last lease.
struct StepOfGroup {
  std::uint64_t step = 0;
  std::uint64_t group_id = 0;
};

// A prompt that was sampled more than once without one correct completion.
struct UnsolvedPrompt {
  std::string prompt_id;
  std::string source;
  std::uint64_t last_group = 0;  // the newest of its accepted groups
  std::int64_t completions = 0;  // scored in the run, all of them wrong
};

// What the calls of a reader see of a ledger that a coordinator writes.
enum class ReaderView : std::uint8_t {
  kOneMoment,  // all of them the ledger as of the first call. The write-ahead log grows meanwhile.
  kEachCall,   // each the ledger as it is then, so that the reader may live as long as it likes
};

// Not thread-safe. A call sees the ledger between two transactions of the coordinator.
class LedgerReader {
 public:
  // kNotFound if the file is missing; kFailedPrecondition if it is not a ledger;
  // kInvalidArgument if it is a ledger of another version; kDataLoss if it is damaged, or has lost
  // transactions that were acknowledged.
  // Never writes to the file.
  static Result<std::unique_ptr<LedgerReader>> Open(const std::string& path,
                                                    ReaderView view = ReaderView::kOneMoment);
  ~LedgerReader();
  LedgerReader(const LedgerReader&) = delete;
  LedgerReader& operator=(const LedgerReader&) = delete;

  // Returns what a coordinator restarts from.
  Result<LedgerSnapshot> Load();

  // Returns the record of the prompt in a row of the dataset, a default one if it has none. Reads
  // one row of a table by its key.
  Result<PromptRecord> ReadPromptRecord(std::uint64_t dataset_row);

  // Returns nullopt before the coordinator's first write.
  Result<std::optional<RunRow>> Run();

  // Returns at most `limit` groups with ids from `first_id` on, in admission order.
  Result<std::vector<GroupRecord>> Groups(std::uint64_t first_id, std::int64_t limit);

  // Calls `visit(const GroupRecord&)` for every group, in admission order.
  template <class Visit>
  Status ForEachGroup(Visit visit) {
    constexpr std::int64_t kPage = 4096;
    for (std::uint64_t next = 1;;) {
      BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> page, Groups(next, kPage));
      if (page.empty()) return OkStatus();
      for (const GroupRecord& record : page) visit(record);
      next = page.back().group.group_id + 1;
    }
  }

  // Returns the groups with these ids, in admission order; unknown ids are ignored.
  Result<std::vector<GroupRecord>> GroupsById(std::span<const std::uint64_t> ids);

  // Returns all accepted groups, sorted by step, then id.
  Result<std::vector<StepOfGroup>> StepsOfAccepted();

  // Returns the groups that were drawn for the step: those of its plan by position, then those that
  // they replaced. Empty before the plan.
  Result<std::vector<std::uint64_t>> DrawnFor(std::uint64_t step);

  // Returns at most `limit` prompts of the newest `recent` accepted groups that the run has never
  // solved, those with the most completions first. Archived groups are not among them: the newest
  // kEndedTags groups of a run are in no archive.
  Result<std::vector<UnsolvedPrompt>> Unsolved(std::int64_t recent, std::int64_t limit);

  // Returns all plans by step.
  Result<std::map<std::uint64_t, PlanRow>> Plans();

  // Counts the prompts that the run passed over, by source and reason.
  Result<std::map<std::string, SkipCounts>> Skipped();

  // Returns the kept counts of the groups that have ended.
  Result<EndedCounts> Ended();

  // Returns the kept histories of prompts, by row of the dataset.
  Result<std::vector<PromptHistory>> Histories();

  // Returns the counts of all accepted groups by source, as the coordinator reported them.
  Result<std::map<std::string, CollapseCounts>> ReportedCollapse();

  // Returns what the run reports of the tokens of accepted groups that have ended.
  Result<EndedTokens> TokensOfEnded();

  // Returns the early end by the learner that registered last; nullopt without one.
  Result<std::optional<EarlyEndRow>> EarlyEnd();

  // Returns nullopt for a run that began with its start model.
  Result<std::optional<OriginRow>> Origin();

  // Returns the groups that were given up because they are damaged, by id.
  Result<std::vector<DropRow>> Drops();

  // Returns the end of the last payload that is needed or was, for PayloadStore::Open.
  Result<PayloadEnd> EndOfPayloads();

  // The same with the payloads of groups that were given up because they are damaged, which need
  // not be there any more.
  Result<PayloadEnd> EndOfAllPayloads();

  // Return the rows of the learner's side, by learner epoch, then step.
  Result<std::vector<LearnerRow>> Learners();
  Result<std::vector<CommitRow>> Commits();
  Result<std::vector<CheckpointRow>> Checkpoints(std::uint64_t first_step = 0);

  // Returns the archives by number.
  Result<std::vector<ArchiveRow>> Archives();

  // Returns what is wrong with archives that are missing or damaged, a sentence each; reads all.
  Result<std::vector<std::string>> DamagedArchives();

  // The database, for queries that only an audit needs.
  Database& database() { return *database_; }

 protected:
  LedgerReader(std::string path, std::unique_ptr<Database> database, ReaderView view);

  // Returns an error of Open if the file `path`, which nobody has opened yet, is a database without
  // seals (checked_files.h): that of another program, or a ledger before version 17.
  static Status CheckHeader(const std::string& path);

  // Returns OK if the file is a ledger of this version, otherwise an error of Open.
  Status CheckVersion();

  // Returns what the log of the ledger `path` must have, before it is opened. nullopt without a
  // log: whoever closed the ledger, or put another one in its place, has left none.
  static std::optional<LedgerTransaction> AcknowledgedInLog(const std::string& path);

  // kDataLoss if this ledger lacks the transaction, or a part of those before it.
  Status CheckAcknowledged(const std::optional<LedgerTransaction>& acknowledged);

  // A default one without the table.
  Result<LedgerTransaction> LastTransaction();

  // Returns nullopt before the first archive.
  Result<std::optional<ArchiveRow>> NewestArchive();

  // Returns the accepted groups of the database with these ids.
  Result<std::map<std::uint64_t, AcceptedGroup>> AcceptedBetween(std::uint64_t first,
                                                                 std::uint64_t last);

  const std::string path_;
  std::unique_ptr<Database> database_;

 private:
  // Lets all reads of a call see one moment.
  class Moment;

  // Returns the end of the last payload of the accepted groups of a condition, or of the archives.
  Result<PayloadEnd> LastEnd(const std::string& where);
  // Returns the archive that has the group, or the groups after it; nullopt if none has.
  Result<std::optional<ArchiveRow>> ArchiveFrom(std::uint64_t group_id);
  // Opens an archive, and keeps it open until another one is.
  Result<Database*> OpenedArchive(const ArchiveRow& row);
  // Calls `visit(database)` for each archive that `where`, SQL of this library, selects.
  template <class Visit>
  Status ForEachArchive(const std::string& where, Visit visit);
  // The plans that `where`, SQL over `step` alone, selects.
  Result<std::map<std::uint64_t, PlanRow>> PlansOf(const std::string& where);

  const ReaderView view_;
  std::uint64_t opened_number_ = 0;
  std::unique_ptr<Database> opened_;
};

}  // namespace buttress
