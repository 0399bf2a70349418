// What must hold after every event, checked against what the simulation has seen itself: the
// invariants of coordinator/schedule/scheduler.h, by their numbers there, and the promises to
// callers: what is acknowledged is durable, an old process has no effect, a plan stays the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "coordinator/rpc/handlers.h"
#include "coordinator/schedule/scheduler.h"
#include "tests/simulation/world.h"
#include "tests/support/fakes/memory_ledger.h"

namespace buttress::simulation {

inline constexpr char kStartWeights[] = "start";

// What is known of a run. Whoever puts an older copy of the run folder back puts this back as well.
struct History {
  MemoryLedger ledger;                            // all that is durable
  std::map<std::uint64_t, std::string> plans;     // groups with their contents, as first seen
  std::set<std::uint64_t> holes;                  // steps whose plan lost a group
  std::map<std::uint64_t, std::uint64_t> fences;  // the highest lease epoch, by group
  CollapseCounts accepted;
  CollapseCounts taken_back;                   // of those, of groups that are to be sampled again
  std::int64_t most_age = 0;                   // the largest S so far
  std::uint64_t started = 0;                   // the epoch of the last coordinator
  std::optional<LedgerChanges> unknown;        // was begun, and may be durable
  std::map<std::string, std::string> trained;  // weights, by step, groups and weights before
};

class Checker {
 public:
  // `promised` are the options that the run has been given.
  Checker(World& world, const SchedulerOptions& promised);

  // A transaction is durable. `scheduler` is the state behind it; null while a process starts.
  void Written(const LedgerChanges& changes, const Scheduler* scheduler);

  // A transaction was begun, and nobody knows whether it is durable.
  void Unknown(const LedgerChanges& changes) { history_.unknown = changes; }

  // A process has read the ledger.
  void Loaded(const LedgerSnapshot& found);

  // The scheduler of a process that reads the ledger, beside that of the one before.
  void Restored(const Scheduler& scheduler);

  // A process has written its start.
  void Started(std::uint64_t coordinator_epoch) { history_.started = coordinator_epoch; }

  // The scheduler grants leases, before its turn is durable.
  void Granted(const v1::ExchangeResponse& response);

  // An answer leaves, of a call that was accepted.
  void Answered(const v1::ExchangeRequest& request, const v1::ExchangeResponse& response);
  void Answered(const v1::RegisterLearnerRequest& request,
                const v1::RegisterLearnerResponse& response);
  void Answered(const v1::PlanBatchRequest& request, const v1::PlanBatchResponse& response);
  void Answered(const v1::CommitRequest& request, const v1::CommitResponse& response);
  void Answered(const v1::AnnounceWeightsRequest& request,
                const v1::AnnounceWeightsResponse& response);
  void Answered(const v1::CheckpointedRequest& request, const v1::CheckpointedResponse& response);
  void Answered(const v1::GetRunStatusRequest& request, const v1::GetRunStatusResponse& response);
  void Answered(const v1::OrderWorkerRequest& request, const v1::OrderWorkerResponse& response);
  void Answered(const v1::SubmitHeader& header, const v1::SubmitGroupsResponse& response);

  template <class Request, class Response>
  void Answered(const Request&, const Response&) {}

  // From now on payloads may be damaged.
  void ExpectDamage() { damaged_ = true; }

  // The payload that the learner receives.
  void Fetched(std::uint64_t group_id, const std::string& payload);

  // The contents of the plan of a step, in order.
  std::string ContentsOf(const std::vector<std::uint64_t>& group_ids) const;

  // A learner has made the weights `after` of the weights `before`, by the groups of a step.
  void Trained(std::uint64_t step, const std::vector<std::uint64_t>& group_ids,
               const std::string& before, const std::string& after);

  // After the end of the run: every group has ended, and `weights`, those of the last checkpoint,
  // follow from the plans of the ledger.
  void Ended(const std::string& weights);

  // Whether a later learner started from a checkpoint before `version`.
  bool Abandoned(const PolicyVersion& version) const;

  const History& history() const { return history_; }

  void PutBack(const History& history);

  const SchedulerOptions& promised() const { return promised_; }

 private:
  bool Applies(const LedgerChanges& changes);
  void CheckMoves(const LedgerChanges& changes);
  void CheckSlots(const Scheduler& scheduler);
  void CheckTokens(const Scheduler& scheduler);
  void CheckCollapse(const Scheduler& scheduler);
  void CheckRecords();
  void CheckReplaced();
  void CheckRestores(const Scheduler& scheduler);
  void CheckWindow(const Scheduler& scheduler);
  // `went_back`: a learner was registered in the same turn, perhaps after the plan was made.
  void CheckPlan(const PlanRow& plan, bool went_back);
  std::int64_t MaxAgeOrdered() const;

  void Expect(bool holds, std::string_view what) { world_.Expect(holds, what); }

  World& world_;
  const SchedulerOptions promised_;
  // Before the last transaction: an order may be of the same turn as a lease or a plan, and come
  // after it.
  std::map<std::string, WorkerOrderRow> orders_before_;
  std::int64_t max_age_before_ = 0;
  History history_;
  std::uint64_t written_ = 0;  // transactions
  bool damaged_ = false;
};

}  // namespace buttress::simulation
