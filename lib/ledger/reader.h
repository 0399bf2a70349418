// Reads a ledger, also while its coordinator runs: for explain, audit, backup and tests.
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
#include "lib/ledger/rows.h"

namespace buttress {

class Database;

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
  // kInvalidArgument if it is a ledger of another version.
  // Never writes to the file.
  static Result<std::unique_ptr<LedgerReader>> Open(const std::string& path,
                                                    ReaderView view = ReaderView::kOneMoment);
  ~LedgerReader();
  LedgerReader(const LedgerReader&) = delete;
  LedgerReader& operator=(const LedgerReader&) = delete;

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
  // solved, those with the most completions first.
  Result<std::vector<UnsolvedPrompt>> Unsolved(std::int64_t recent, std::int64_t limit);

  // Returns all plans by step.
  Result<std::map<std::uint64_t, PlanRow>> Plans();

  // Counts the prompts that the run passed over, by source and reason.
  Result<std::map<std::string, SkipCounts>> Skipped();

  // Returns the kept counts of the groups that have ended.
  Result<EndedCounts> Ended();

  // Counts the kept numbers of prompts passed over that a recount of the rows does not give; 0 in a
  // correct ledger.
  Result<std::int64_t> WrongSkipCounts();

  // Returns the kept histories of prompts, by row of the dataset.
  Result<std::vector<PromptHistory>> Histories();

  // Counts the prompts that are both drawn and passed over in one pass over the dataset; 0 in a
  // correct ledger.
  Result<std::int64_t> DrawnAndSkipped();

  // Counts the prompts that were drawn, and those drawn or passed over, by the position of their
  // source (-1: of no source) and its pass.
  struct PassCounts {
    std::int64_t drawn = 0;
    std::int64_t used = 0;
  };

  Result<std::map<std::pair<std::int64_t, std::uint64_t>, PassCounts>> DrawnByPass();

  // Returns the counts of all accepted groups by source, as the coordinator reported them.
  Result<std::map<std::string, CollapseCounts>> ReportedCollapse();

  // Returns nullopt for a run that began with its start model.
  Result<std::optional<OriginRow>> Origin();

  // Returns the groups that were given up because they are damaged, by id.
  Result<std::vector<DropRow>> Drops();

  // Returns the end of the last payload that is needed or was, for PayloadStore::Open.
  Result<PayloadEnd> EndOfPayloads();

  // Return all rows of the learner's side, by learner epoch, then step.
  Result<std::vector<LearnerRow>> Learners();
  Result<std::vector<CommitRow>> Commits();
  Result<std::vector<CheckpointRow>> Checkpoints();

  // Returns what SQLite finds wrong with the file, at most ten lines; reads all of it.
  Result<std::vector<std::string>> DamageOfFile();

  // Returns the rows that do not have their checksum, such as "row '12' of groups"; reads all.
  Result<std::vector<std::string>> DamagedRows();

 private:
  explicit LedgerReader(std::unique_ptr<Database> database);
  Result<std::vector<GroupRecord>> Join(const std::string& where);

  const std::unique_ptr<Database> database_;
};

}  // namespace buttress
