// Reads a ledger without disturbing its coordinator, while that runs or after it: for explain,
// audit, replay and tests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/ledger/rows.h"

namespace buttress {

class Database;

// A drawn prompt and, once it was accepted, what came of it.
struct GroupRecord {
  GroupRow group;
  std::optional<AcceptedRow> accepted;
};

// Where an accepted group counts: at the step of its plan; without one, at the step behind the
// version that its last lease granted.
struct StepOfGroup {
  std::uint64_t step = 0;
  std::uint64_t group_id = 0;
};

// Not thread-safe. Sees the ledger as it was between two commits of the coordinator, when it was
// opened; open anew to see more.
class LedgerReader {
 public:
  // kNotFound if there is no such file, kFailedPrecondition if it is no ledger of this version.
  // Never writes and never checkpoints.
  static Result<std::unique_ptr<LedgerReader>> Open(const std::string& path);
  ~LedgerReader();
  LedgerReader(const LedgerReader&) = delete;
  LedgerReader& operator=(const LedgerReader&) = delete;

  // None before the coordinator's first write.
  Result<std::optional<RunRow>> Run();

  // Groups with ids from `first_id` on, at most `limit`, in admission order.
  Result<std::vector<GroupRecord>> Groups(std::uint64_t first_id, std::int64_t limit);

  // Calls `take(const GroupRecord&)` for every group, in admission order.
  template <class Take>
  Status ForEachGroup(Take take) {
    constexpr std::int64_t kPage = 4096;
    for (std::uint64_t next = 1;;) {
      BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> page, Groups(next, kPage));
      if (page.empty()) return OkStatus();
      for (const GroupRecord& record : page) take(record);
      next = page.back().group.group_id + 1;
    }
  }

  // The groups of a step's plan, in its order; empty if it has none.
  Result<std::vector<GroupRecord>> GroupsOfStep(std::uint64_t step);

  // Groups with these ids, in admission order; ids that there are not are passed over.
  Result<std::vector<GroupRecord>> GroupsById(std::span<const std::uint64_t> ids);

  // All accepted groups by step, then id.
  Result<std::vector<StepOfGroup>> StepsOfAccepted();

  // All plans by step.
  Result<std::map<std::uint64_t, PlanRow>> Plans();

  // Prompts passed over in the run, by reason.
  Result<std::array<std::int64_t, kSkipReasons>> Skipped();

  // Prompts that are both drawn and passed over in one pass over the dataset; 0 in every ledger
  // that is right.
  Result<std::int64_t> DrawnAndSkipped();

  Result<std::vector<LearnerRow>> Learners();
  Result<std::vector<CommitRow>> Commits();
  Result<std::vector<CheckpointRow>> Checkpoints();

  // Counts of all accepted groups by source, as the coordinator reported them.
  Result<std::map<std::string, CollapseCounts>> ReportedCollapse();

  // The same, classified anew from the outcomes and raw rewards of every completion.
  Result<std::map<std::string, CollapseCounts>> RecountCollapse();

 private:
  explicit LedgerReader(std::unique_ptr<Database> database);
  Result<std::vector<GroupRecord>> Join(const std::string& where);

  const std::unique_ptr<Database> database_;
};

// What holds of every ledger, at any moment and after any crash.
struct LedgerAudit {
  std::map<std::string, std::int64_t> groups;   // by state; the sum is all prompts drawn
  std::map<std::string, std::int64_t> dropped;  // by reason
  CollapseCounts reported;
  CollapseCounts recounted;
  std::vector<std::string> violations;  // empty: all invariants hold
};

// Checks that ids 1 ... n are all there; that groups, plans and contents agree; that no group is in
// two plans; that no prompt is both drawn and passed over in one pass; that replaced groups have no
// signal; that the reported collapse of the run and of each step equals a recount from the
// outcomes; that a finished run has only settled and dropped groups.
Result<LedgerAudit> AuditLedger(LedgerReader& reader);

}  // namespace buttress
