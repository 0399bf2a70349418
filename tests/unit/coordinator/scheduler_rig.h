// A scheduler with a ledger in memory, and shorthands for its calls.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/schedule/scheduler.h"
#include "lib/base/text/digest.h"
#include "tests/support/fakes/memory_ledger.h"
#include "tests/support/make_head.h"

namespace buttress {

// Two prompts a step, age 1, first in first out, three steps, leases of 100 ms.
inline SchedulerOptions SmallRun() {
  SchedulerOptions options;
  options.run_name = "small";
  options.config_sha256 = "aa";
  options.sources = {{.name = {}, .dataset = {1000, "bb"}, .cursor = {}}};
  options.steps = 3;
  options.prompts = 2;
  options.max_age = 1;
  options.window = 1;
  options.lease_ms = 100;
  options.max_attempts = 3;
  return options;
}

inline std::vector<std::uint64_t> Ids(const std::vector<GrantedLease>& leases) {
  std::vector<std::uint64_t> ids;
  for (const GrantedLease& lease : leases) ids.push_back(lease.ref.group_id);
  return ids;
}

class SchedulerRig {
 public:
  // `also` gets all changes as well, from the first on.
  explicit SchedulerRig(
      const SchedulerOptions& run = SmallRun(),
      std::function<void(const LedgerChanges&)> also = [](const auto&) {})
      : options(run), written(std::move(also)), scheduler(Restore()) {}

  // Learner registered, version 1:0 announced, worker `a` registered.
  static SchedulerRig Started(const SchedulerOptions& run = SmallRun()) {
    SchedulerRig rig(run);
    rig.StartLearner({});
    rig.Announce(0);
    rig.Register("a", 1);
    rig.Commit();
    return rig;
  }

  Scheduler Restore() {
    LedgerChanges start;
    Result<Scheduler> restored = Scheduler::Restore(options, ledger.Load(), now_ms, start);
    BUTTRESS_CHECK(restored.ok(), restored.status().ToString());
    Write(start);
    return *std::move(restored);
  }

  // Registers a worker; the caller commits.
  void Register(const std::string& worker, std::uint64_t incarnation,
                const WorkerAddresses& addresses = {}, const std::string& start_id = "") {
    const Status status =
        scheduler.RegisterWorker({worker, incarnation, addresses, "", start_id}, now_ms, changes);
    BUTTRESS_CHECK(status.ok(), status.ToString());
  }

  void Commit() {
    Write(changes);
    changes = {};
  }

  void Write(const LedgerChanges& all) {
    ledger.Write(all);
    written(all);
  }

  // Draws what is needed, named p0, p1, ...
  void Admit() {
    std::vector<DrawnPrompt> prompts;
    for (std::int64_t n = scheduler.NeedsPrompts(); n > 0; --n) {
      prompts.push_back({"p" + std::to_string(drawn), "source", 0, drawn, 2});
      ++drawn;
    }
    Admit(prompts, {0, drawn, drawn});
  }

  void Admit(const std::vector<DrawnPrompt>& prompts, const PromptCursor& cursor) {
    scheduler.Remember(ledger.RecordsOf(prompts));
    scheduler.Admit(prompts, {}, {&cursor, 1}, changes);
    Commit();
  }

  ExchangeReply Exchange(const WorkerExchange& request) {
    Result<ExchangeReply> reply = scheduler.Exchange(request, now_ms, changes);
    BUTTRESS_CHECK(reply.ok(), reply.status().ToString());
    Commit();
    return *std::move(reply);
  }

  // Worker `a` names `held` and asks for `capacity` more.
  ExchangeReply Exchange(std::int64_t capacity, std::vector<LeaseRef> held = {}) {
    WorkerExchange request;
    request.worker_id = "a";
    request.incarnation = 1;
    request.capacity = capacity;
    request.held = std::move(held);
    return Exchange(request);
  }

  // All that can be leased, to worker `a`, by group id.
  std::map<std::uint64_t, GrantedLease> LeaseAll() {
    Admit();
    std::map<std::uint64_t, GrantedLease> leases;
    for (const GrantedLease& lease : Exchange(100).leases) leases[lease.ref.group_id] = lease;
    return leases;
  }

  static Submission MakeSubmission(const GrantedLease& lease, PolicyVersion version,
                                   std::vector<Outcome> outcomes) {
    Submission submission;
    submission.worker_id = "a";
    submission.incarnation = 1;
    submission.lease = lease.ref;
    submission.content_sha256 = Sha256Of("content of " + std::to_string(lease.ref.group_id));
    submission.head = MakeHead(lease.ref.group_id, outcomes, version);
    submission.head.set_prompt_id(lease.prompt.prompt_id);
    return submission;
  }

  SubmitOutcome Submit(const Submission& submission) {
    const SubmitOutcome outcome = scheduler.Submit(submission, changes);
    Commit();
    return outcome;
  }

  // A group with one correct and one wrong completion, from the least version that will do.
  SubmitOutcome Submit(const GrantedLease& lease) {
    return Submit(MakeSubmission(lease, lease.min_version, {Outcome::kCorrect, Outcome::kWrong}));
  }

  void StartLearner(const PolicyVersion& checkpoint) {
    const Result<LearnerStart> start = scheduler.RegisterLearner(checkpoint, 1, "", changes);
    BUTTRESS_CHECK(start.ok(), start.status().ToString());
    epoch = start->learner_epoch;
    Commit();
  }

  void Announce(std::uint64_t step) {
    const Status status = scheduler.Announce(
        epoch, {{epoch, step, Sha256Of(std::to_string(step))}, "manifest"}, changes);
    BUTTRESS_CHECK(status.ok(), status.ToString());
    Commit();
  }

  Result<PlanReply> Plan(std::uint64_t step) {
    Result<PlanReply> reply = scheduler.PlanBatch(epoch, step, changes);
    Commit();
    return reply;
  }

  static std::vector<std::uint64_t> IdsOf(const buttress::Plan& plan) {
    std::vector<std::uint64_t> ids;
    for (const GroupHeadPtr& group : plan.groups) ids.push_back(group->group_id());
    return ids;
  }

  std::vector<std::uint64_t> PlannedIds(std::uint64_t step) {
    const Result<PlanReply> reply = Plan(step);
    std::vector<std::uint64_t> ids;
    if (!reply.ok() || !reply->plan) return ids;
    return IdsOf(*reply->plan);
  }

  Status Train(std::uint64_t step) {
    const Status status = scheduler.Commit(epoch, step, changes);
    Commit();
    return status;
  }

  Status Checkpoint(std::uint64_t step) {
    const Status status = scheduler.Checkpointed(epoch, step, "", changes);
    Commit();
    return status;
  }

  // Fills, plans, trains and announces `step`.
  void RunStep(std::uint64_t step) {
    for (const auto& [id, lease] : LeaseAll()) Submit(lease);
    BUTTRESS_CHECK(Plan(step)->plan.has_value(), "the step has its groups");
    BUTTRESS_CHECK(Train(step).ok(), "the step is committed");
    Announce(step);
  }

  GroupState StateOf(std::uint64_t group_id) const { return ledger.groups.at(group_id).state; }

  DropReason ReasonOf(std::uint64_t group_id) const { return ledger.groups.at(group_id).reason; }

  SchedulerOptions options;
  std::int64_t now_ms = 1000;
  MemoryLedger ledger;
  std::function<void(const LedgerChanges&)> written;
  Scheduler scheduler;
  LedgerChanges changes;
  std::uint64_t drawn = 0;
  std::uint64_t epoch = 0;
};

}  // namespace buttress
