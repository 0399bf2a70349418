// Simulates a whole run around one Scheduler: workers, a learner and a ledger in memory, all driven
// by one seed. After every event it checks invariants 1 - 6 and 8 of
// coordinator/schedule/scheduler.h
// against its own observations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/schedule/scheduler.h"
#include "lib/base/text/random.h"
#include "tests/support/fakes/memory_ledger.h"

namespace buttress {

class RunSimulation {
 public:
  // Calls `written` with all changes that the scheduler makes, from the first on.
  explicit RunSimulation(std::uint64_t seed,
                         std::function<void(const LedgerChanges&)> written = {});

  // Simulates one random event.
  void Step();

  // Drives the run to its end without faults of the honest workers, one of which there is at least;
  // returns false if it does not end.
  bool DriveToEnd();

  // Returns the violated properties, in the words of the invariants; empty if all hold.
  const std::vector<std::string>& failures() const { return failures_; }

  const MemoryLedger& ledger() const { return ledger_; }

  // Counts submissions by outcome.
  const std::array<std::int64_t, kSubmitOutcomes>& outcomes() const { return outcomes_; }

  const Scheduler& scheduler() const { return scheduler_; }

  // Counts the leases that continue what an earlier one began.
  std::int64_t continued() const { return continued_; }

  // Counts the unfinished groups whose worker had to tell a restarted coordinator of them.
  std::int64_t told_again() const { return told_again_; }

  // Counts the groups that were taken back although a later one of their prompt had ended.
  std::int64_t followed() const { return followed_; }

 private:
  struct Held {
    GrantedLease lease;
    std::optional<Submission> content;  // once sampled
    PartialCompletion begun = {};       // of completion 0
    std::int32_t reported = 0;          // tokens of it that the coordinator has acknowledged
  };

  struct Worker {
    std::string id;
    std::uint64_t incarnation = 0;
    PolicyVersion loaded;
    std::map<LeaseRef, Held> held;
    std::vector<LeaseRef> finished;
    WorkerTokens tokens;                  // as it counts them
    std::uint64_t coordinator_epoch = 0;  // that it reports to
    bool broken = false;                  // delivers nothing
  };

  struct Learner {
    std::uint64_t epoch = 0;                 // 0: not registered
    std::uint64_t step = 0;                  // trained
    std::vector<PolicyVersion> checkpoints;  // durable
  };

  std::uint64_t Below(std::uint64_t bound) { return random_.Below(bound); }

  bool Chance(int percent) { return Below(100) < static_cast<std::uint64_t>(percent); }

  void Expect(bool holds, const std::string& what);
  static SchedulerOptions MakeOptions(RandomStream& random);
  Scheduler Start();
  void Write(const LedgerChanges& changes);

  void Admit();
  void Register(Worker& worker);
  void Exchange(Worker& worker, bool lossy);
  void Report(Worker& worker, WorkerExchange& request);
  void CheckKept();
  void CheckContinued(const GrantedLease& lease);
  void Load(Worker& worker);
  Submission Sample(const Worker& worker, const GrantedLease& lease);
  void Submit(Worker& worker, bool lossy);
  void Refuse(Worker& worker);
  void TakeOrderBack(const Worker& worker);
  void OrderMaxAge();
  void SubmitLate();
  void CheckAccepted(const Submission& submission, bool was_accepted, std::int64_t replaced_before);
  std::int64_t Replaced() const;
  std::int64_t ReplacedIn(std::uint64_t step) const;
  void ReplaceWorker(Worker& worker);
  void PassTime();
  void Expire();
  void RestartCoordinator();
  void DropAGroup();
  void FindDamage();
  void StartLearner();
  void Plan(std::uint64_t step);
  void Train();
  void Announce();
  void Checkpoint(bool lossy);

  void Finish(const LedgerChanges& changes);
  void CheckMoves(const LedgerChanges& changes);
  void CheckSlots();
  void CheckWindow();
  void CheckCollapse();
  void CheckTokens();
  // The worker forgets a group that nobody wants from it.
  static void Cut(Worker& worker, std::map<LeaseRef, Held>::iterator held);
  void NoteFollowed(std::uint64_t group_id);
  void CheckRecords();
  bool Abandoned(const PolicyVersion& version) const;

  const std::function<void(const LedgerChanges&)> written_;
  RandomStream random_;
  SchedulerOptions options_;
  MemoryLedger ledger_;
  std::int64_t now_ms_ = 0;
  Scheduler scheduler_;
  std::vector<Worker> workers_;
  Learner learner_;
  PolicyVersion announced_;
  std::uint64_t next_incarnation_ = 1;
  std::set<std::uint64_t> released_;               // groups whose slot is free again
  std::set<std::uint64_t> shared_;                 // groups that had two holders at a time
  std::map<std::uint64_t, std::string> plans_;     // as first seen, encoded
  std::set<std::uint64_t> holes_;                  // steps whose plan lost a group
  std::map<std::uint64_t, std::uint64_t> starts_;  // learner epoch -> start step
  std::vector<Submission> sent_;                   // may be repeated late
  std::uint64_t payloads_ = 0;                     // sent, the last at this offset
  std::int64_t most_age_ = 0;                      // the largest S so far
  std::int64_t continued_ = 0;                     // leases
  std::int64_t told_again_ = 0;                    // unfinished groups
  std::int64_t followed_ = 0;                      // taken back after a later one had ended
  CollapseCounts accepted_;
  CollapseCounts taken_back_;  // of those, of groups that are to be sampled again
  std::array<std::int64_t, kSubmitOutcomes> outcomes_{};
  std::vector<std::string> failures_;
};

}  // namespace buttress
