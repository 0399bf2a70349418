// Hands prompts to workers and plans to the learner, and owns the life of every group. This is THE
// state machine: pure, without threads, I/O or a clock (callers pass `now_ms`, monotonic). Leases
// (leases.h) and workers (workers.h) are parts of it.
//
//             lease           submit(ok)        PlanBatch           Commit
//   pending ──────────► leased ──────────► ready ──────────► batched ──────────► trained
//      ▲                  │                  │                  ▲                  │
//      ├── lease ended ───┘                  │                  └── learner back ──┤
//      ├── learner back ─────────────────────┤                                     │ Checkpointed
//      │                                     │                                     ▼
//   pending, leased, ready, batched ─────────┴──► dropped                       settled
//
//   learner back: the learner came back from an older checkpoint. Leased and ready groups of
//   versions after it become pending, and what they counted is taken back.
//   settled: behind the durable checkpoint before the newest one, or behind the last of the run. A
//   learner whose newest checkpoint is damaged goes back to the one before, and trains the same
//   plans again.
//   dropped: too old, poison, without a signal (zero_variance: resample), damaged, or the run
//   ended. The slot is freed, the group is counted, and the reason is kept.
//
// Every call appends what it changed to a LedgerChanges. The caller makes those rows durable before
// it answers, and ends the process if it cannot; Restore builds the same scheduler from what was
// written. Thread safety: none; one thread owns the scheduler.
//
// Invariants:
//   (1) A group is in exactly one state. Only a lease that Leases holds can deliver a leased group;
//       its row names the newest one.
//   (2) Every drawn prompt ends as settled or dropped exactly once, whatever is killed. At the last
//       step whatever is pending, leased, ready or batched becomes dropped (run_ended), and the
//       final checkpoint settles the rest.
//   (3) Active slots never exceed B = (S + 1) P. A leased, ready or batched group holds one, and a
//       trained group until its version is announced; a group that was planned for an earlier
//       learner holds none.
//   (4) No trained group is older than MaxAge(P, S, W) = S + ceil((W - 1) / P) steps
//       (lib/rl/staleness.h; batch_assembler checks it again).
//   (5) The plan of a step has exactly P groups and does not change until the step is settled,
//       across restarts of any process. Only a group that was given up as damaged is replaced, by
//       the first ready groups of the line, before the step is trained (again).
//   (6) Versions only rise within a learner epoch. A lease names the oldest version that may sample
//       the group, in deterministic mode the only one.
//   (7) The number of micro-batches of a step follows from its plan (the learner keeps this one).
//   (8) Every reported ACR equals a recount from the ledger; a group counts once whatever was
//       retried, duplicated or restarted. What another group replaced counts in the next plan.
//   (9) The line, the plans and the versions of the leases depend only on the order of the calls.
//
// The line is all groups without a plan, in admission order. A group may be leased at an index
// below LeaseHeadroom = (S + 1 + announced - planned) P: if no younger group passes index j, it
// trains in step planned + floor(j / P) + 1, which starts from a version of at most announced + S:
// (4). Leased and ready groups are before that index, and planned groups that are not announced
// hold at most (planned - announced) P slots: (3). The run cannot stop: plans are trained and
// announced without further groups, then at least P groups may be leased, and P ready groups at the
// head of the line are a plan. Where a plan lost damaged groups, as many more may be leased.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/schedule/batch_assembler.h"
#include "coordinator/schedule/collapse_monitor.h"
#include "coordinator/schedule/group_table.h"
#include "coordinator/schedule/leases.h"
#include "coordinator/schedule/lineage.h"
#include "coordinator/schedule/partials.h"
#include "coordinator/schedule/prompt_records.h"
#include "coordinator/schedule/refusals.h"
#include "coordinator/schedule/scheduler_types.h"
#include "coordinator/schedule/workers.h"
#include "lib/base/report/status.h"
#include "lib/ledger/rows.h"

namespace buttress {

class Scheduler {
 public:
  // Starts a run (if snapshot.run is unset) or resumes one. The coordinator epoch rises in both
  // cases, and leases keep their epochs with a fresh time to live. kFailedPrecondition if the
  // ledger belongs to another run, configuration or dataset; kDataLoss if it contradicts itself.
  static Result<Scheduler> Restore(const SchedulerOptions& options, const LedgerSnapshot& snapshot,
                                   std::int64_t now_ms, LedgerChanges& out);

  // Returns whether a worker that asked now may get a new lease.
  bool MayLease() const;

  // Returns how many prompts the prompt source may draw now.
  std::int64_t NeedsPrompts() const;

  // Returns the bases of the selection `greso` after the planned steps.
  GresoBases greso() const;

  // PromptRecords::Find. REQUIRES: the changes of earlier turns are in the ledger.
  const PromptRecord* FindRecord(std::uint64_t row) const { return records_.Find(row); }

  // Keeps the records that a draw has read. REQUIRES: it is called before Admit, if
  // selects_prompts().
  void Remember(const std::map<std::uint64_t, PromptRecord>& records) {
    records_.Remember(records);
  }

  // Returns whether the results of earlier groups decide which prompts are drawn.
  bool selects_prompts() const { return options_.selection.mode != SelectionMode::kNone; }

  // Admits drawn prompts, in order, and records those that were passed over; each source resumes at
  // its one of `cursors`. REQUIRES: at most NeedsPrompts() prompts.
  void Admit(std::span<const DrawnPrompt> prompts, std::span<const SkipRow> skipped,
             std::span<const PromptCursor> cursors, LedgerChanges& out);

  // Registers a worker; a new incarnation ends the leases of the old one. Fails as Workers::Check.
  Status RegisterWorker(const JoiningWorker& worker, std::int64_t now_ms, LedgerChanges& out);

  // Keeps the tokens that the worker reports, renews the leases that it holds, ends those that it
  // returns, and grants leases up to its capacity: first (with the same epoch) those that it holds
  // but did not name, then new ones. Safe to repeat. Fails as Workers::CheckCaller.
  Result<ExchangeReply> Exchange(const WorkerExchange& request, std::int64_t now_ms,
                                 LedgerChanges& out);

  // Returns the outcome that Submit would have now. Only kAccepted needs a stored payload.
  SubmitOutcome Check(const Submission& submission) const;

  // Submits a group: history, ACR and state change together. SubmitOutcome describes the outcomes.
  SubmitOutcome Submit(Submission submission, LedgerChanges& out);

  // Ends the lease of a submission that is no group, or another one than was leased: the group has
  // failed at the worker. Changes nothing and returns false if the worker does not have the lease.
  bool Refuse(const std::string& worker_id, std::uint64_t incarnation, const LeaseRef& lease,
              std::int64_t now_ms, LedgerChanges& out);

  // Notes why a submission was refused whose lease Refuse has ended. Errors of Refusals::Note: the
  // run cannot go on.
  Status NoteRefusal(const std::string& worker_id, const std::string& why);

  // Ends leases that have expired: their groups become pending, or are dropped as poison. Forgets
  // workers that have been silent for long.
  void Expire(std::int64_t now_ms, LedgerChanges& out);

  // Returns when the next lease expires, in milliseconds of the caller's clock; nullopt without
  // leases.
  std::optional<std::int64_t> NextExpiryMs() const { return leases_.NextExpiryMs(); }

  // Registers a learner job that starts from `checkpoint`. What the checkpoint contains is settled;
  // trained groups of later steps become batched again, with unchanged plans; leased and ready
  // groups of versions after the checkpoint become pending. `secret_sha256` is that of the secret
  // which the job is given. kDataLoss if the checkpoint is older than a settled step or newer than
  // the last committed one. kAborted if the run went on without the checkpoint, as when a learner
  // wrote it that was replaced meanwhile: the caller tries the one before.
  Result<LearnerStart> RegisterLearner(const PolicyVersion& checkpoint, std::uint32_t world_size,
                                       const std::string& secret_sha256, LedgerChanges& out);

  // Checks that `checkpoint` is the one that this ledger knows: of the run `run_id`, written by the
  // learner with the secret of `learner_sha256`, and with the digest that it was reported with.
  // kDataLoss names both sides.
  Status CheckCheckpointOrigin(const PolicyVersion& checkpoint, const std::string& run_id,
                               const std::string& learner_sha256) const;

  // Checks the caller: kFailedPrecondition if its epoch has ended, kPermissionDenied if the secret
  // is not the one that the job was given.
  Status CheckLearner(std::uint64_t learner_epoch, std::string_view secret) const;

  // Returns the plan of `step`, which is the same until the step is settled. kFailedPrecondition
  // for an old learner epoch, a settled step, or a step that does not follow the last planned one.
  Result<PlanReply> PlanBatch(std::uint64_t learner_epoch, std::uint64_t step, LedgerChanges& out);

  // Returns where the payloads of `group_ids`, all in the plan of `step`, are stored, in the same
  // order. kAborted names a group that is not in the plan: the caller asks for the plan again.
  Result<std::vector<PayloadRef>> Payloads(std::uint64_t learner_epoch, std::uint64_t step,
                                           std::span<const std::uint64_t> group_ids) const;

  // Returns where the payloads of all groups of the plan of `step` are stored; empty without one.
  std::vector<PayloadRef> PlanPayloads(std::uint64_t step) const;

  // Gives up a group of the plan of `step`, because its payload is damaged as `why` says: its place
  // goes to the first groups that are ready. Repeating it changes nothing. kDataLoss if the run is
  // deterministic or the step is trained.
  Status GiveUpDamaged(std::uint64_t learner_epoch, std::uint64_t step, std::uint64_t group_id,
                       const std::string& why, LedgerChanges& out);

  // Records that `step` was trained. The last step drops all groups that are not trained. Repeating
  // the last commit changes nothing.
  Status Commit(std::uint64_t learner_epoch, std::uint64_t step, LedgerChanges& out);

  // Records that a version can be fetched, and frees the slots of the groups trained up to it. A
  // version older than the newest changes nothing.
  Status Announce(std::uint64_t learner_epoch, const ManifestRow& weights, LedgerChanges& out);

  // Records that a checkpoint of `step` is durable, and settles everything trained up to the
  // checkpoint before it; at the last step, everything.
  Status Checkpointed(std::uint64_t learner_epoch, std::uint64_t step, const std::string& digest,
                      LedgerChanges& out);

  // Stops the run: from now on no plan and no new lease is given, and the learner is asked to write
  // a checkpoint and to leave. Safe to repeat.
  void RequestStop() { stop_requested_ = true; }

  // Ends the run with the newest checkpoint, before its last step; `why` is the learner's reason. A
  // learner that registers afterwards takes the run up again; a restart does not.
  void EndEarly(std::string why, LedgerChanges& out);

  // Changes S, from the next plan and the next lease on; nullopt goes back to the configured one. A
  // smaller S drops ready groups that are too old then. kInvalidArgument in deterministic mode.
  Status OrderMaxAge(std::optional<std::int64_t> max_age, LedgerChanges& out);

  std::int64_t max_age() const { return rules_.max_age; }  // S

  // Returns why the learner ended the run before its last step; "" if it did not.
  std::string end_reason() const { return early_end_ ? early_end_->reason : ""; }

  // Returns whether the learner had ended the run before this start of the coordinator.
  bool ended_before_start() const {
    return early_end_ && early_end_->coordinator_epoch < run_.coordinator_epoch;
  }

  // Returns whether a registered worker stays although the learner has ended the run: its process
  // was started after that, as all are when the run is to be taken up again, so a learner will
  // register.
  bool AwaitsLearner(const std::string& worker_id) const;

  StopPhase stop_phase() const;

  // Gives a worker a standing order with the reason for it, or takes its order back (kNone).
  // kNotFound, with the ids that would do, if the worker is neither registered nor under an order.
  Status OrderWorker(const WorkerOrderRow& order, LedgerChanges& out);

  // Returns the first payload segment that holds a group which is neither settled nor dropped.
  std::uint64_t FirstNeededSegment() const;

  // Returns the newest version that workers should load; null before the first, and after the
  // learner went back behind it until it announces the next one.
  const ManifestRow* weights() const;

  // Returns the digest of an announced version; nullopt if it was not announced, or is older than
  // the newest kKeptVersions.
  std::optional<std::string> DigestOf(const PolicyVersion& version) const;

  // Returns Workers::Relays while there are weights to load, else nothing.
  std::vector<std::string> WeightRelays(const std::string& worker_id, std::int64_t now_ms) const {
    return weights() == nullptr ? std::vector<std::string>() : workers_.Relays(worker_id, now_ms);
  }

  bool finished() const { return run_.finished; }

  const RunRow& run() const { return run_; }

  // Prompts that were passed over, by reason.
  const std::map<std::string, SkipCounts>& skipped() const { return skipped_; }

  std::uint64_t steps() const { return options_.steps; }  // of the run

  const std::vector<SourceRow>& sources() const { return run_.sources; }

  const SchedulerEvents& events() const { return events_; }

  const GroupTable& groups() const { return groups_; }

  SchedulerStatus GetStatus() const;

  const Workers& workers() const { return workers_; }

  const Leases& leases() const { return leases_; }

  // Returns whether the states are equal but for what a restart loses: deadlines, registered
  // workers and events. For tests of Restore.
  bool SameState(const Scheduler& other) const;

 private:
  using VersionKey = std::pair<std::uint64_t, std::uint64_t>;  // learner epoch and step

  // Why a lease ended without a delivery, and whose failure that is.
  enum class LeaseEnd : std::uint8_t {
    kLost,     // with its worker: the worker's, and the group's if it was held alone
    kFailed,   // returned, refused or kept to its limit: the worker's and the group's
    kUnable,   // not sampled from the weights that it asks for: the worker's
    kNoFault,  // nobody's
  };

  Scheduler(const SchedulerOptions& options, const LedgerSnapshot& snapshot);

  // scheduler_leases.cc
  bool Holds(const std::string& worker_id, std::uint64_t incarnation, const LeaseRef& ref) const {
    return leases_.Find(ref, worker_id, incarnation) != nullptr;
  }

  // `held` is the number of groups that the worker was lost with.
  void EndLease(const HeldLease& lease, LeaseEnd end, std::int64_t held, LedgerChanges& out);
  void Strike(const HeldLease& lease, LedgerChanges& out);
  void EndReturned(const WorkerExchange& request, LedgerChanges& out);
  void KeepPartials(const WorkerExchange& request);
  bool MayContinue(const GroupRow& group, const PartialCompletion& partial) const;
  void Renew(const WorkerExchange& request, ExchangeReply& reply);
  // Reports the leases that the worker names and that have ended.
  void Revoke(const WorkerExchange& request, ExchangeReply& reply) const;

  // What a worker may be granted: room for `capacity` groups beyond the `held` ones, and at most
  // `most` in all.
  struct Room {
    std::int64_t capacity = 0;
    std::int64_t held = 0;
    std::int64_t most = 0;

    bool any() const { return capacity > 0 && held < most; }
  };

  void GrantNew(const WorkerExchange& request, ExchangeReply& reply, LedgerChanges& out);
  void GrantLate(const WorkerExchange& request, Room& room, ExchangeReply& reply,
                 LedgerChanges& out);
  bool Fits(std::uint64_t group_id, const std::string& worker_id, const Room& room) const;
  void Grant(std::uint64_t group_id, const WorkerExchange& request, Room& room,
             ExchangeReply& reply, LedgerChanges& out);
  GrantedLease MakeLease(const LeaseRef& ref);
  std::int64_t LeasableLine() const;

  // scheduler_submit.cc
  SubmitOutcome CheckVersions(const GroupRow& group, const v1::GroupHead& head) const;
  bool MayBeOld(const PolicyVersion& version, const v1::GroupHead& head) const;
  SubmitOutcome CheckEnded(const Submission& submission) const;
  // Makes the worker of an accepted submission the one that the group's row names.
  void NameWorker(const Submission& submission, LedgerChanges& out);
  // Ends the leases of a group that one of them has delivered.
  void EndDelivered(const HeldLease& winner, LedgerChanges& out);
  void Record(const GroupRow& group, v1::GroupHead& head, LedgerChanges& out);
  bool MayReplace(const v1::GroupHead& head) const;
  std::int64_t ReplaceCap() const;
  bool TokensAreSpent() const;

  // scheduler_learner.cc
  Status CheckEpoch(std::uint64_t learner_epoch) const;
  Status CheckCheckpoint(const PolicyVersion& checkpoint) const;
  // Returns the line up to its `ready`-th ready group.
  std::vector<BatchCandidate> Line(std::int64_t ready) const;
  std::optional<std::vector<std::uint64_t>> ChooseGroups(std::uint64_t step,
                                                         const BatchRules& rules,
                                                         LedgerChanges& out);
  bool HasBatch(const BatchRules& rules) const;
  static std::int64_t Missing(const PlanRow& plan);
  bool FillPlan(std::uint64_t step, LedgerChanges& out);
  void MoveToPlan(std::uint64_t group_id, std::uint64_t step, std::size_t position,
                  LedgerChanges& out);
  void CountPassed(const std::vector<std::uint64_t>& group_ids, LedgerChanges& out);
  void WritePlan(std::uint64_t step, const std::vector<std::uint64_t>& group_ids,
                 LedgerChanges& out);
  // Records in the plan what the closed loop allowed and what came of it, and sets the draw factor
  // of the next step.
  void NoteControl(PlanRow& plan);
  Plan ReadPlan(const PlanRow& row) const;
  bool AnyAbandoned(const v1::GroupHead& head) const;
  void Abandon(LedgerChanges& out);
  void UndoSubmit(std::uint64_t group_id, LedgerChanges& out);
  void TakeRecordBack(const GroupRow& group, LedgerChanges& out);
  void EndRun(LedgerChanges& out);
  void MoveCheckpoint(std::uint64_t step, LedgerChanges& out);
  void Settle(std::uint64_t step, LedgerChanges& out);

  SchedulerOptions options_;
  RunRow run_;
  BatchRules rules_;  // S of them is the ordered one, or else that of options_
  GroupTable groups_;
  Leases leases_;
  Partials partials_;
  Workers workers_;
  Refusals refusals_;
  WorkerTokenTable tokens_;
  std::map<std::uint64_t, PlanRow> plans_;           // not settled, by step
  std::int64_t missing_ = 0;                         // places of plans_ without a group
  LengthTotals drawn_;                               // of what was drawn for plans_
  std::vector<PromptHistory> history_;               // by row of the dataset
  PromptRecords records_;                            // of the selection
  std::map<std::string, SkipCounts> skipped_;        // prompts passed over, by source
  std::map<std::uint64_t, AcceptedGroup> replaced_;  // since the last plan, by group id
  DrawControl draw_;  // of the next plan: the draw factor, and the tokens replaced up to the last
  Lineage lineage_;
  CollapseMonitor collapse_;
  std::map<std::uint64_t, std::string> learner_secrets_;  // their SHA-256, by learner epoch
  std::map<VersionKey, std::string> digests_;             // of the newest announced versions
  std::map<VersionKey, std::string> checkpoints_;         // digests, from settled_step on
  std::optional<ManifestRow> announced_;
  bool stop_requested_ = false;
  bool learner_knows_stop_ = false;
  std::optional<EarlyEndRow> early_end_;  // by the learner that registered last
  std::int64_t now_ms_ = 0;               // the newest time that a caller has passed
  SchedulerEvents events_;
};

}  // namespace buttress
