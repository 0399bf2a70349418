// Hands prompts to workers and plans to the learner, and owns the life of every group. This is THE
// state machine: pure, without threads, I/O or a clock (callers pass `now_ms`, monotonic).
//
//             lease           submit(ok)        PlanBatch           Commit
//   pending ──────────► leased ──────────► ready ──────────► batched ──────────► trained
//      ▲                  │                  │                  ▲                  │
//      ├── lease expired ─┤                  │                  └── learner back ──┤
//      └── returned ──────┘                  │                                     │ Checkpointed
//                                            │                                     ▼
//   pending, leased, ready, batched ─────────┴──► dropped                       settled
//
//   learner back: the learner came back from an older checkpoint.
//   dropped: too old, abandoned, poison, no signal, or the run ended; the slot is freed, the group
//   is counted, and the reason is kept.
//
//   call          consumes                  produces                waits for       unblocks
//   Admit         NeedsPrompts() prompts    pending groups          a free slot     Exchange
//   Exchange      held leases, capacity     leased groups,          a pending       Submit
//                                           revocations             group, weights
//   Submit        a leased group's result   a ready group, ACR,     -               PlanBatch
//                                           history
//   PlanBatch     P ready groups            a plan, its collapse    P groups in     Commit
//                                           snapshot                line
//   Commit        the step's plan           trained groups          -               Announce,
//                                                                                   Checkpointed
//   Announce      a manifest                freed slots, newest     -               NeedsPrompts,
//                                           version                                 Exchange
//   Checkpointed  trained groups            settled groups          -               the run's end
//
// Every call appends what it changed to a LedgerChanges. The caller makes those rows durable before
// it answers, and ends the process if it cannot; Restore builds the same scheduler from what was
// written.
//
// Thread safety: none. One thread owns the scheduler, or one mutex guards every call.
//
// Invariants:
//   (1) A group is in exactly one state; `leased` names exactly one worker and lease epoch.
//   (2) Every drawn prompt ends as settled or dropped exactly once, whatever is killed. At the last
//       step whatever is pending, leased, ready or batched becomes dropped (run_ended), and the
//       final checkpoint settles the rest.
//   (3) Active slots never exceed B = (S + 1) P. A leased, ready or batched group holds one, and a
//       trained group until its version is announced; a group that the learner went back behind
//       holds none.
//   (4) No trained group is older than MaxAge(P, S, W) = S + ceil((W - 1) / P) steps
//       (lib/rl/staleness.h; batch_assembler checks it again).
//   (5) The plan of a step has exactly P groups and does not change until the step is settled,
//       across restarts of any process.
//   (6) Versions only rise within a learner epoch. A lease names the oldest version that may sample
//       the group, in deterministic mode the only one.
//   (7) The number of micro-batches of a step follows from its plan (the learner keeps this one).
//   (8) Every reported ACR equals a recount from the ledger; a group counts once whatever was
//       retried, duplicated or restarted.
//   (9) The line, the plans and the versions of the leases depend only on the order of the calls.
//
// Which groups may be leased. The line is all groups without a plan, in admission order; j is the
// index of a group in it, `planned` the last planned step, `announced` the step of the newest
// version. A group may be leased when
//
//   j < LeaseHeadroom(P, S, announced, planned * P) = (S + 1 + announced - planned) P.
//
// If no younger group passes it, the group trains in step planned + floor(j / P) + 1, which starts
// from version planned + floor(j / P) <= announced + S: invariant (4). Slots are held by leased and
// ready groups, all of which are in the line before that index, and by planned groups that are not
// yet announced, at most (planned - announced) P: together at most (S + 1) P = B: invariant (3). A
// group whose lease ended keeps its place before all younger ones.
//
// Why the run cannot stop. Plans are trained and announced without any further group, so
// `announced` reaches `planned`. Then at least the first P groups of the line may be leased,
// prompts are drawn until there are P, and P ready groups at the head of the line are a plan
// whatever W is. A dropped group moves all younger ones forward and leaves room for a fresh prompt.
//
// Replacing groups (zero_variance: resample). A group that comes in without a signal (constant, or
// with fewer than two scorable completions) is accepted, counted, and dropped in the same
// transaction; the prompt drawn for the room it leaves is its replacement. Between two plans at
// most replace_cap groups are replaced, in the run at most replace_budget; any further group
// without a signal keeps its place and fills the plan, where the learner masks it. The step of a
// replaced group is the next one to be planned, and its class is counted in the snapshot of that
// step, so that the rate that gates and logs read is that of all groups drawn. With S = 0 and W = 1
// the groups drawn for a step, and so those of them that train, do not depend on the order in which
// they come in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/batch_assembler.h"
#include "coordinator/collapse_monitor.h"
#include "coordinator/group_table.h"
#include "coordinator/lease_deadlines.h"
#include "coordinator/lineage.h"
#include "coordinator/scheduler_types.h"
#include "lib/base/status.h"
#include "lib/ledger/rows.h"

namespace buttress {

class Scheduler {
 public:
  // Starts a run (snapshot.run is unset) or takes one up; either way the
  // coordinator epoch rises, and leases keep their epochs with a fresh time to
  // live. kFailedPrecondition if the ledger is of another run or configuration;
  // kDataLoss if it contradicts itself.
  static Result<Scheduler> Restore(const SchedulerOptions& options, const LedgerSnapshot& snapshot,
                                   std::int64_t now_ms, LedgerChanges& out);

  // How many prompts the prompt source may draw now.
  std::int64_t NeedsPrompts() const;

  // What the prompt source chooses by.
  PromptMemory memory() const;

  // Prompts drawn, in order, and those passed over on the way; `cursor` is
  // where the source goes on. REQUIRES: at most NeedsPrompts().
  void Admit(std::span<const DrawnPrompt> prompts, std::span<const SkipRow> skipped,
             const PromptCursor& cursor, LedgerChanges& out);

  // A worker joins. A new incarnation drops the leases of the old one; the same
  // one keeps them.
  void RegisterWorker(const std::string& worker_id, std::uint64_t incarnation,
                      const WorkerAddresses& addresses, std::int64_t now_ms, LedgerChanges& out);

  // Renews what the worker holds, takes back what it returns, grants again
  // (same epoch) what it did not name and new leases up to its capacity. Safe
  // to repeat. kNotFound: this incarnation is not registered, it must register
  // again.
  Result<ExchangeReply> Exchange(const WorkerExchange& request, std::int64_t now_ms,
                                 LedgerChanges& out);

  // Outcome that Submit would have now: only kAccepted needs its payload
  // written.
  SubmitOutcome Check(const Submission& submission) const;

  // Takes a group in: history, ACR and state in one. Outcomes are described at
  // SubmitOutcome.
  SubmitOutcome Submit(Submission submission, LedgerChanges& out);

  // Leases that ran out go back to pending, or are dropped as poison. Forgets
  // workers that have not been heard of for long.
  void Expire(std::int64_t now_ms, LedgerChanges& out);

  // Milliseconds on the caller's clock when the next lease runs out; none
  // without leases.
  std::optional<std::int64_t> NextExpiryMs() const;

  // The learner job starts from `checkpoint`: trained groups of later steps go
  // back to batched in the same composition; pending submissions, leased and
  // ready groups that were sampled from versions after it are dropped; what the
  // checkpoint holds is settled. kFailedPrecondition: its step lies before what
  // is settled or after what was committed.
  Result<LearnerStart> RegisterLearner(const PolicyVersion& checkpoint, std::uint32_t world_size,
                                       LedgerChanges& out);

  // The plan of `step`, the same until it is settled. kFailedPrecondition: an
  // old learner epoch, a settled step, or one that does not follow the last
  // planned one.
  Result<PlanReply> PlanBatch(std::uint64_t learner_epoch, std::uint64_t step, LedgerChanges& out);

  // Where the payloads of `group_ids`, all of the plan of `step`, lie; in the
  // order asked. kNotFound names a group that is not of it.
  Result<std::vector<PayloadRef>> Payloads(std::uint64_t learner_epoch, std::uint64_t step,
                                           std::span<const std::uint64_t> group_ids) const;

  // The optimizer step is done; the last one ends the run's need for groups.
  // Repeating the last commit changes nothing.
  Status Commit(std::uint64_t learner_epoch, std::uint64_t step, LedgerChanges& out);

  // A version can be fetched: slots of groups trained up to it are free. An
  // older one than announced changes nothing.
  Status Announce(std::uint64_t learner_epoch, const PublishedWeights& weights, LedgerChanges& out);

  // A checkpoint of `step` is durable: everything trained up to it is settled.
  Status Checkpointed(std::uint64_t learner_epoch, std::uint64_t step, const std::string& digest,
                      LedgerChanges& out);

  // Payload segments before this one hold only settled and dropped groups.
  std::uint64_t FirstNeededSegment() const;

  // Newest version that workers should load; null before the first, and while
  // the learner has not announced after going back behind it.
  const PublishedWeights* weights() const;

  // Weights services of other workers that have loaded the newest version and
  // were heard of within a lease; at most kMaxRelays, different ones for
  // different workers, so that no worker serves all the others.
  std::vector<std::string> WeightRelays(const std::string& worker_id, std::int64_t now_ms) const;

  static constexpr std::size_t kMaxRelays = 4;

  bool finished() const { return run_.finished; }

  const RunRow& run() const { return run_; }

  const PromptCursor& cursor() const { return run_.cursor; }

  const SchedulerEvents& events() const { return events_; }

  const GroupTable& groups() const { return groups_; }

  SchedulerStatus GetStatus() const;

  // Those that are registered, by id.
  const std::map<std::string, WorkerInfo>& workers() const { return workers_; }

  // Live leases by worker id; workers without any are left out.
  std::map<std::string, std::int64_t> LeasesByWorker() const;

  // The same state but for what a restart loses: deadlines, registered workers,
  // events. For tests of Restore.
  bool SameState(const Scheduler& other) const;

 private:
  enum class LeaseEnd : std::uint8_t { kExpired, kFailed, kWorkerReplaced, kNoFault };

  Scheduler(const SchedulerOptions& options, const LedgerSnapshot& snapshot);

  // scheduler.cc: workers.
  void EndLease(std::uint64_t group_id, LeaseEnd end, LedgerChanges& out);
  bool Holds(const WorkerExchange& request, const LeaseRef& ref) const;
  void TakeBack(const WorkerExchange& request, LedgerChanges& out);
  void Renew(const WorkerExchange& request, std::int64_t now_ms, ExchangeReply& reply);
  void GrantNew(const WorkerExchange& request, std::int64_t now_ms, ExchangeReply& reply,
                LedgerChanges& out);
  Lease MakeLease(const GroupRow& group) const;
  std::int64_t LeasableLine() const;

  // scheduler_submit.cc
  SubmitOutcome CheckVersions(const GroupRow& group, const AcceptedRow& accepted) const;
  SubmitOutcome CheckEnded(const Submission& submission) const;
  void Remember(const GroupRow& group, const AcceptedRow& accepted, LedgerChanges& out);
  bool MayReplace(const AcceptedRow& accepted) const;

  // scheduler_learner.cc
  Status CheckLearner(std::uint64_t learner_epoch) const;
  Status CheckCheckpoint(const PolicyVersion& checkpoint) const;
  std::vector<BatchCandidate> Line() const;
  void WritePlan(std::uint64_t step, const std::vector<std::uint64_t>& group_ids,
                 LedgerChanges& out);
  BatchPlan ReadPlan(const PlanRow& row) const;
  bool AnyAbandoned(const std::vector<PolicyVersion>& versions) const;
  void Abandon(LedgerChanges& out);
  void EndRun(LedgerChanges& out);
  void Settle(std::uint64_t step, LedgerChanges& out);

  SchedulerOptions options_;
  BatchRules rules_;
  RunRow run_;
  GroupTable groups_;
  LeaseDeadlines deadlines_;                        // of leased groups
  std::map<std::uint64_t, PlanRow> plans_;          // not settled, by step
  std::map<std::string, PromptHistory> history_;    // by prompt id
  std::map<std::uint64_t, PromptRecord> records_;   // by row of the dataset
  std::array<std::int64_t, kSkipReasons> skipped_;  // prompts passed over
  std::map<std::uint64_t, AcceptedRow> replaced_;   // since the last plan, by group id
  Lineage lineage_;
  CollapseMonitor collapse_;
  std::optional<PublishedWeights> announced_;
  std::map<std::string, WorkerInfo> workers_;
  std::int64_t forgotten_ms_ = 0;  // when workers were last looked through
  SchedulerEvents events_;
};

}  // namespace buttress
