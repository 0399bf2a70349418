#include "tests/property/run_simulation.h"

#include <algorithm>
#include <utility>

#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
#include "lib/experience/episodes.h"
#include "lib/rl/staleness.h"
#include "tests/support/make_head.h"

namespace buttress {
namespace {

PolicyVersion OldestOf(const v1::GroupHead& head) {
  return {head.versions(0).learner_epoch(), head.versions(0).step(), ""};
}

// The arrows of the diagram in scheduler.h.
bool Allowed(GroupState from, GroupState to) {
  using enum GroupState;
  switch (from) {
    case kPending:
      return to == kLeased || to == kDropped;
    case kLeased:
      return to == kPending || to == kReady || to == kDropped;
    case kReady:
      return to == kBatched || to == kPending || to == kDropped;
    case kBatched:
      return to == kTrained || to == kDropped;
    case kTrained:
      return to == kBatched || to == kSettled;
    case kSettled:
    case kDropped:
      return false;
  }
  return false;
}

const std::array<std::string, 2> kSources = {"even", "odd"};
// Few, so that groups of one prompt meet.
constexpr std::array<std::uint64_t, 2> kRows = {2, 1};

// Moves the cursor of a source, in file order; returns the pass and the row that it was at.
std::pair<std::uint64_t, std::uint64_t> NextRow(PromptCursor& cursor, std::size_t source) {
  if (cursor.index == kRows[source]) cursor = {cursor.pass + 1, 0, cursor.drawn};
  return {cursor.pass, (source == 0 ? 0 : kRows[0]) + cursor.index++};
}

}  // namespace

RunSimulation::RunSimulation(std::uint64_t seed, std::function<void(const LedgerChanges&)> written)
    : written_(std::move(written)),
      random_({seed, 0}),
      options_(MakeOptions(random_)),
      scheduler_(Start()),
      most_age_(options_.max_age) {
  workers_.resize(1 + Below(3));
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].id = "w" + std::to_string(i);
    workers_[i].broken = i > 0 && Chance(30);
  }
}

SchedulerOptions RunSimulation::MakeOptions(RandomStream& random) {
  SchedulerOptions options;
  options.run_name = "simulated";
  options.config_sha256 = "c0ffee";
  for (std::size_t i = 0; i < kSources.size(); ++i)
    options.sources.push_back({.name = kSources[i], .dataset = {kRows[i], "d5"}, .cursor = {}});
  options.steps = 1 + random.Below(6);
  options.prompts = 1 + static_cast<std::int64_t>(random.Below(4));
  options.max_age = static_cast<std::int64_t>(random.Below(3));
  options.window = 1 + static_cast<std::int64_t>(random.Below(6));
  options.lease_ms = 100;
  options.max_attempts = 1 + static_cast<std::int64_t>(random.Below(4));
  options.deterministic = options.max_age == 0 && random.Below(3) == 0;
  options.old_tokens = static_cast<OldTokens>(random.Below(3));
  options.resample = random.Below(2) == 0;
  options.replace_cap = options.prompts * static_cast<std::int64_t>(1 + random.Below(3));
  options.replace_budget = static_cast<std::int64_t>(random.Below(2) * (1 + random.Below(10)));
  options.selection.mode = random.Below(2) == 0 ? SelectionMode::kGreso : SelectionMode::kNone;
  return options;
}

Scheduler RunSimulation::Start() {
  LedgerChanges changes;
  Result<Scheduler> scheduler = Scheduler::Restore(options_, ledger_.Load(), now_ms_, changes);
  BUTTRESS_CHECK(scheduler.ok(), scheduler.status().ToString());
  Write(changes);
  return *std::move(scheduler);
}

void RunSimulation::Write(const LedgerChanges& changes) {
  ledger_.Write(changes);
  if (written_) written_(changes);
}

void RunSimulation::Expect(bool holds, const std::string& what) {
  if (!holds) failures_.push_back(what);
}

bool RunSimulation::Abandoned(const PolicyVersion& version) const {
  return std::ranges::any_of(starts_, [&](const auto& start) {
    return start.first > version.learner_epoch && start.second < version.step;
  });
}

void RunSimulation::Step() {
  Worker& worker = workers_[Below(workers_.size())];
  const std::uint64_t event = Below(100);
  if (event < 12) return Admit();
  if (event < 32) return Exchange(worker, true);
  if (event < 52) return Submit(worker, true);
  if (event < 56) return SubmitLate();
  if (event < 59) return ReplaceWorker(worker);
  if (event < 63) return PassTime();
  if (event < 64) return Chance(50) ? TakeOrderBack(worker) : OrderMaxAge();
  if (event < 68) return RestartCoordinator();
  if (event < 70 || learner_.epoch == 0) return StartLearner();
  if (event < 72) return FindDamage();
  if (event < 79) return Plan(learner_.step + 1 + Below(2));
  if (event < 86) return Train();
  if (event < 95) return Announce();
  Checkpoint(true);
}

bool RunSimulation::DriveToEnd() {
  StartLearner();
  for (const Worker& worker : workers_) TakeOrderBack(worker);
  for (int round = 0; round < 2000 && !scheduler_.finished() && failures_.empty(); ++round) {
    Announce();
    Admit();
    now_ms_ += options_.lease_ms / 2;
    Expire();
    for (Worker& worker : workers_) {
      Exchange(worker, false);
      while (!worker.held.empty() && !worker.broken) Submit(worker, false);
    }
    Plan(learner_.step + 1);
    Train();
    if (learner_.step == options_.steps || Chance(20)) Checkpoint(false);
  }
  return scheduler_.finished();
}

void RunSimulation::Admit() {
  const std::int64_t wanted = scheduler_.NeedsPrompts();
  if (wanted == 0) return;
  std::vector<DrawnPrompt> prompts(1 + Below(static_cast<std::uint64_t>(wanted)));
  std::vector<PromptCursor> cursors;
  for (const SourceRow& source : scheduler_.sources()) cursors.push_back(source.cursor);
  for (DrawnPrompt& prompt : prompts) {
    const std::size_t source = Below(kSources.size());
    ++cursors[source].drawn;
    const auto [pass, row] = NextRow(cursors[source], source);
    prompt = {"p" + std::to_string(row), kSources[source], pass, row, 4};
  }
  std::vector<SkipRow> skipped(Chance(30) ? 1 : 0);
  for (SkipRow& skip : skipped) {
    const std::size_t source = Below(kSources.size());
    const auto [pass, row] = NextRow(cursors[source], source);
    skip = {pass, row, static_cast<SkipReason>(Below(kSkipReasons)), kSources[source]};
  }
  LedgerChanges changes;
  scheduler_.Remember(ledger_.RecordsOf(prompts));
  scheduler_.Admit(prompts, skipped, cursors, changes);
  Finish(changes);
}

void RunSimulation::Register(Worker& worker) {
  if (worker.incarnation == 0) worker.incarnation = next_incarnation_++;
  LedgerChanges changes;
  Expect(scheduler_.RegisterWorker({worker.id, worker.incarnation}, now_ms_, changes).ok(),
         "a worker may register");
  Finish(changes);
  const std::uint64_t epoch = scheduler_.run().coordinator_epoch;
  if (std::exchange(worker.coordinator_epoch, epoch) == epoch) return;
  for (auto& [ref, held] : worker.held) {
    if (std::exchange(held.reported, 0) > 0) ++told_again_;
  }
}

void RunSimulation::Exchange(Worker& worker, bool lossy) {
  WorkerExchange request;
  request.worker_id = worker.id;
  request.incarnation = worker.incarnation;
  for (const auto& [ref, held] : worker.held) request.held.push_back(ref);
  request.finished = worker.finished;
  if (lossy && Chance(15) && !request.held.empty()) {
    const LeaseRef ref = request.held[Below(request.held.size())];
    request.returned.push_back({ref, static_cast<ReturnReason>(1 + Below(3))});
    std::erase(request.held, ref);
    Cut(worker, worker.held.find(ref));
  }
  // A worker whose calls overtake each other says what it had said before.
  if (!lossy || Chance(80)) request.tokens = worker.tokens;
  if (lossy) Report(worker, request);
  request.capacity = static_cast<std::int64_t>(lossy ? Below(4) : 8);
  request.loaded_version = worker.loaded;
  LedgerChanges changes;
  const std::int64_t granted = scheduler_.events().leases_granted;
  Result<ExchangeReply> reply = scheduler_.Exchange(request, now_ms_, changes);
  Finish(changes);
  Expect(scheduler_.end_reason().empty() || scheduler_.events().leases_granted == granted,
         "no group of a run that the learner has ended is leased");
  if (!reply.ok()) return Register(worker);
  for (const GrantedLease& lease : reply->leases) {
    Expect(!OlderThan(announced_, lease.min_version),
           "(6) a lease names a version that is announced");
    Expect(scheduler_.leases().Find(lease.ref, worker.id, worker.incarnation) != nullptr,
           "(1) a lease has one holder");
    CheckContinued(lease);
    const std::uint64_t id = lease.ref.group_id;
    if (scheduler_.leases().OfGroup(id).size() > 1) shared_.insert(id);
  }
  if (lossy && Chance(15)) return;  // the response is lost
  for (const auto& [ref, part] : request.partials) {
    if (const auto held = worker.held.find(ref); held != worker.held.end())
      held->second.reported = part.end();
  }
  CheckKept();
  worker.finished.clear();
  for (const LeaseRef& ref : reply->revoked) {
    if (const auto held = worker.held.find(ref); held != worker.held.end()) Cut(worker, held);
  }
  for (const GrantedLease& lease : reply->leases) {
    Held held{lease, std::nullopt};
    if (!lease.partials.empty()) held.begun = lease.partials[0];
    held.reported = held.begun.end();
    worker.held.try_emplace(lease.ref, std::move(held));
  }
  if (!lossy || Chance(70)) Load(worker);
}

// The worker samples some tokens of completion 0 of its groups, each the one of its index, and
// reports what the coordinator does not have.
void RunSimulation::Report(Worker& worker, WorkerExchange& request) {
  for (auto& [ref, held] : worker.held) {
    PartialCompletion& begun = held.begun;
    if (held.content) continue;
    const bool may_sample =
        !OlderThan(worker.loaded, held.lease.min_version) &&
        (begun.segments.empty() || !OlderThan(worker.loaded, begun.segments.back().version));
    if (may_sample && Chance(40)) {
      PartialCompletion more;
      more.first_token = begun.end();
      for (std::uint64_t tokens = 1 + Below(3); tokens > 0; --tokens) {
        more.token_ids.push_back(more.end());
        more.logprobs.push_back(-1);
      }
      more.segments = {{more.first_token, worker.loaded}};
      begun.Append(std::move(more));
    }
    if (begun.end() == held.reported) continue;
    request.partials.emplace_back(
        ref, PartFrom(0, held.reported, begun.token_ids, begun.logprobs, begun.segments));
  }
}

// The coordinator has what the living workers have told it since it started. Of holders that share
// a group it may keep what the one with fewer tokens has.
void RunSimulation::CheckKept() {
  std::int64_t told = 0;
  for (const Worker& worker : workers_) {
    if (worker.coordinator_epoch != scheduler_.run().coordinator_epoch) continue;
    for (const auto& [ref, held] : worker.held) {
      const bool lives = scheduler_.leases().Find(ref, worker.id, worker.incarnation) != nullptr;
      if (lives && !shared_.contains(ref.group_id)) told += held.reported;
    }
  }
  Expect(options_.deterministic || told <= scheduler_.GetStatus().kept_tokens,
         "what workers have reported since a restart is kept");
}

void RunSimulation::CheckContinued(const GrantedLease& lease) {
  for (const PartialCompletion& partial : lease.partials) {
    Expect(!options_.deterministic, "a deterministic group is sampled from its prompt");
    Expect(partial.completion == 0 && partial.first_token == 0,
           "a lease continues what was reported, from its first token on");
    for (std::int32_t t = 0; t < partial.end(); ++t)
      Expect(partial.token_ids[static_cast<std::size_t>(t)] == t, "the tokens are in order");
    for (std::size_t i = 0; i < partial.segments.size(); ++i) {
      const PolicyVersion& version = partial.segments[i].version;
      Expect(!Abandoned(version), "no token of an abandoned version is continued");
      Expect(i == 0 || !OlderThan(version, partial.segments[i - 1].version),
             "(6) versions only rise");
      Expect(options_.old_tokens != OldTokens::kDrop || version.step >= lease.min_version.step,
             "old tokens are dropped");
    }
    ++continued_;
  }
}

void RunSimulation::OrderMaxAge() {
  LedgerChanges changes;
  std::optional<std::int64_t> order;
  if (Chance(70)) order = static_cast<std::int64_t>(Below(4));
  const Status status = scheduler_.OrderMaxAge(order, changes);
  Expect(status.ok() != options_.deterministic, "an age may be ordered, but no exact version");
  Finish(changes);
  most_age_ = std::max(most_age_, scheduler_.max_age());
}

void RunSimulation::Load(Worker& worker) {
  const ManifestRow* weights = scheduler_.weights();
  Expect(weights == nullptr || !OlderThan(weights->version, worker.loaded),
         "(6) versions only rise");
  if (weights != nullptr) worker.loaded = weights->version;
}

Submission RunSimulation::Sample(const Worker& worker, const GrantedLease& lease) {
  Submission submission;
  submission.worker_id = worker.id;
  submission.incarnation = worker.incarnation;
  submission.lease = lease.ref;
  std::vector<Outcome> outcomes;
  const std::uint64_t kind = Below(4);
  for (int i = 0; i < 4; ++i) {
    outcomes.push_back(kind == 0   ? Outcome::kCorrect
                       : kind == 1 ? Outcome::kWrong
                                   : static_cast<Outcome>(1 + Below(3)));
  }
  submission.head = MakeHead(lease.ref.group_id, outcomes, worker.loaded);
  submission.head.set_prompt_id(lease.prompt.prompt_id);
  submission.content_sha256 = Sha256Of(std::to_string(random_.Below(UINT64_MAX)));
  return submission;
}

// A broken worker holds its groups for ever, or sends what is refused.
void RunSimulation::Refuse(Worker& worker) {
  LedgerChanges changes;
  if (Chance(50))
    scheduler_.Refuse(worker.id, worker.incarnation, worker.held.begin()->first, now_ms_, changes);
  Finish(changes);
}

void RunSimulation::TakeOrderBack(const Worker& worker) {
  LedgerChanges changes;
  scheduler_.OrderWorker({worker.id, WorkerOrder::kNone, ""}, changes).IgnoreError();
  Finish(changes);
}

void RunSimulation::Submit(Worker& worker, bool lossy) {
  if (worker.held.empty()) return;
  if (worker.broken) return Refuse(worker);
  auto held = worker.held.begin();
  std::advance(held, static_cast<std::ptrdiff_t>(Below(worker.held.size())));
  if (!held->second.content) {
    const bool obeys = !OlderThan(worker.loaded, held->second.lease.min_version);
    if (!obeys && Chance(70)) Load(worker);
    held->second.content = Sample(worker, held->second.lease);
    worker.tokens.generated += TokensOf(held->second.content->head);
  }
  Submission submission = *held->second.content;
  submission.payload.offset = ++payloads_;
  if (lossy && Chance(5))
    submission.content_sha256 = Sha256Of("other " + std::to_string(Below(1000)));
  sent_.push_back(submission);
  LedgerChanges changes;
  const bool was_accepted = ledger_.accepted.contains(submission.lease.group_id);
  const std::int64_t replaced = ReplacedIn(scheduler_.run().planned_step + 1);
  const SubmitOutcome expected = scheduler_.Check(submission);
  const SubmitOutcome outcome = scheduler_.Submit(submission, changes);
  Finish(changes);
  Expect(expected == outcome, "Check says what Submit does");
  ++outcomes_[static_cast<std::size_t>(outcome)];
  if (outcome == SubmitOutcome::kAccepted) CheckAccepted(submission, was_accepted, replaced);
  if (lossy && Chance(20)) return;  // the acknowledgement is lost
  worker.finished.push_back(held->first);
  if (outcome != SubmitOutcome::kAccepted && outcome != SubmitOutcome::kDuplicate)
    worker.tokens.refused += TokensOf(held->second.content->head);
  worker.held.erase(held);
}

void RunSimulation::Cut(Worker& worker, std::map<LeaseRef, Held>::iterator held) {
  if (held->second.content) worker.tokens.cut += TokensOf(held->second.content->head);
  worker.held.erase(held);
}

void RunSimulation::CheckAccepted(const Submission& submission, bool was_accepted,
                                  std::int64_t replaced_before) {
  Expect(!was_accepted, "(8) a group counts once");
  Expect(!Abandoned(OldestOf(submission.head)), "an abandoned version is not accepted");
  accepted_.Add(ClassOf(submission.head));
  CheckCollapse();
  const GroupRow& group = ledger_.groups.at(submission.lease.group_id);
  const bool replaced = group.reason == DropReason::kNoSignal;
  const std::int64_t replaced_in_run = Replaced() - (replaced ? 1 : 0);
  const bool room = replaced_before < options_.replace_cap &&
                    (options_.replace_budget == 0 || replaced_in_run < options_.replace_budget);
  const bool last_planned = scheduler_.run().planned_step == options_.steps;
  const bool signal = ClassOf(submission.head) == CollapseClass::kMixed;
  Expect(replaced == (options_.resample && !signal && room && !last_planned),
         "a group without a signal is replaced while cap and budget last, and no other is");
}

std::int64_t RunSimulation::Replaced() const {
  return std::ranges::count_if(ledger_.groups, [](const auto& entry) {
    return entry.second.reason == DropReason::kNoSignal;
  });
}

std::int64_t RunSimulation::ReplacedIn(std::uint64_t step) const {
  return std::ranges::count_if(ledger_.groups, [step](const auto& entry) {
    return entry.second.reason == DropReason::kNoSignal && entry.second.step == step;
  });
}

void RunSimulation::SubmitLate() {
  if (sent_.empty()) return;
  Submission submission = sent_[Below(sent_.size())];
  if (Chance(30)) submission.content_sha256 = Sha256Of("forged");
  LedgerChanges changes;
  const bool was_accepted = ledger_.accepted.contains(submission.lease.group_id);
  const std::int64_t replaced = ReplacedIn(scheduler_.run().planned_step + 1);
  const SubmitOutcome outcome = scheduler_.Submit(submission, changes);
  Finish(changes);
  if (outcome == SubmitOutcome::kAccepted) CheckAccepted(submission, was_accepted, replaced);
}

void RunSimulation::ReplaceWorker(Worker& worker) {
  worker.incarnation = 0;
  worker.held.clear();
  worker.finished.clear();
  worker.tokens = {};
  Register(worker);
  Expect(!scheduler_.leases().HasAny(worker.id), "a new incarnation holds no lease");
}

void RunSimulation::PassTime() {
  now_ms_ += static_cast<std::int64_t>(Below(150));
  if (Chance(20)) now_ms_ += Leases::kSoonestLateMs;
  Expire();
}

void RunSimulation::Expire() {
  LedgerChanges changes;
  scheduler_.Expire(now_ms_, changes);
  Finish(changes);
  const std::optional<std::int64_t> next = scheduler_.NextExpiryMs();
  Expect(!next || *next > now_ms_, "no lease lives beyond its deadline");
}

void RunSimulation::RestartCoordinator() {
  Scheduler restored = Start();
  Expect(restored.SameState(scheduler_), "the ledger gives back the same state");
  Expect(restored.run().coordinator_epoch == scheduler_.run().coordinator_epoch + 1,
         "the coordinator epoch rises");
  scheduler_ = std::move(restored);
  if (!options_.deterministic && Chance(20)) DropAGroup();
}

// An operator drops a group that no checkpoint contains; coordinator and learner start again.
void RunSimulation::DropAGroup() {
  std::uint64_t newest = scheduler_.run().settled_step;
  for (const PolicyVersion& checkpoint : learner_.checkpoints) {
    if (!Abandoned(checkpoint)) newest = std::max(newest, checkpoint.step);
  }
  std::vector<GroupRow> candidates;
  for (const auto& [id, group] : ledger_.Load().groups) {
    if (group.step == 0 || group.step > newest) candidates.push_back(group);
  }
  if (candidates.empty()) return;
  GroupRow group = candidates[Below(candidates.size())];
  LedgerChanges changes;
  changes.drops = {{group.group_id, group.step, group.position, 0, "simulated"}};
  changes.run = ledger_.run;
  if (group.step != 0) {
    holes_.insert(group.step);
    ++changes.run->learner_epoch;
  }
  group.state = GroupState::kDropped;
  group.reason = DropReason::kDamaged;
  group.holds_slot = false;
  if (const auto content = ledger_.accepted.find(group.group_id);
      content != ledger_.accepted.end()) {
    changes.ended_tokens = ledger_.ended_tokens;
    changes.ended_tokens->stale += TokensOf(*content->second.head);
  }
  changes.groups = {group};
  Write(changes);
  scheduler_ = Start();
  StartLearner();
}

// The learner reads a group of a plan and its payload is damaged; the call may be repeated.
void RunSimulation::FindDamage() {
  std::vector<GroupRow> batched;
  for (const std::uint64_t id : scheduler_.groups().InState(GroupState::kBatched))
    batched.push_back(*scheduler_.groups().Find(id));
  if (batched.empty()) return;
  const GroupRow group = batched[Below(batched.size())];
  for (int call = 0; call < 2; ++call) {
    LedgerChanges changes;
    const Status status =
        scheduler_.GiveUpDamaged(learner_.epoch, group.step, group.group_id, "simulated", changes);
    Finish(changes);
    Expect(status.ok() != options_.deterministic, "a damaged group is given up or stops the run");
    Expect(changes.empty() == (options_.deterministic || call > 0), "a group is given up once");
  }
  if (!options_.deterministic) holes_.insert(group.step);
}

void RunSimulation::StartLearner() {
  std::erase_if(learner_.checkpoints, [&](const PolicyVersion& checkpoint) {
    return checkpoint.step < scheduler_.run().settled_step || Abandoned(checkpoint);
  });
  PolicyVersion checkpoint;
  if (!learner_.checkpoints.empty())
    checkpoint = learner_.checkpoints[Below(learner_.checkpoints.size())];
  LedgerChanges changes;
  const Result<LearnerStart> start = scheduler_.RegisterLearner(checkpoint, 1, "", changes);
  Expect(start.ok(), "a learner may start from any checkpoint that is not before a settled step");
  if (!start.ok()) return;
  learner_.epoch = start->learner_epoch;
  learner_.step = checkpoint.step;
  starts_[learner_.epoch] = checkpoint.step;
  for (const GroupRow& group : changes.groups) {
    if (group.state == GroupState::kBatched) released_.insert(group.group_id);
  }
  Finish(changes);
  Expect(start->next_step == checkpoint.step + 1, "the learner continues after its checkpoint");
  Expect(scheduler_.end_reason().empty(), "a learner that registers takes the run up");
}

void RunSimulation::Plan(std::uint64_t step) {
  if (step > scheduler_.run().planned_step + 1) return;
  LedgerChanges changes;
  const Result<PlanReply> reply = scheduler_.PlanBatch(learner_.epoch, step, changes);
  Finish(changes);
  Expect(reply.ok(), "the next step can be planned");
  if (!reply.ok()) return;
  Expect(reply->finished == (step > options_.steps), "there is no step after the last");
  if (!reply->plan) return;
  const buttress::Plan& plan = *reply->plan;
  Expect(static_cast<std::int64_t>(plan.groups.size()) == options_.prompts,
         "(5) a plan has P groups");
  // But for the records of prompts, which become others where an earlier group is taken back.
  v1::Plan proto = ToProto(plan);
  for (v1::GroupHead& head : *proto.mutable_groups()) head.clear_record();
  const std::string bytes = proto.SerializeAsString();
  const auto [seen, first] = plans_.try_emplace(step, bytes);
  if (holes_.erase(step) > 0) seen->second = bytes;
  Expect(first || seen->second == bytes, "(5) a plan does not change");
  CollapseCounts counts;
  for (const GroupHeadPtr& group : plan.groups) {
    const v1::GroupHead& head = *ledger_.accepted.at(group->group_id()).head;
    const auto [raw_rewards, outcomes] = VerdictsOf(head);
    counts.Add(ClassifyGroup(raw_rewards, outcomes));
    Expect(group->SerializeAsString() == head.SerializeAsString(),
           "(4)(8) the plan's heads are those of the ledger");
    const std::int64_t age =
        static_cast<std::int64_t>(step) - 1 - static_cast<std::int64_t>(OldestOf(head).step);
    Expect(!first || !Abandoned(OldestOf(head)),
           "no group of an abandoned version gets into a new plan");
    const std::int64_t bound =
        MaxAge(options_.prompts, first ? scheduler_.max_age() : most_age_, options_.window);
    Expect(age >= 0 && (age <= bound || options_.old_tokens == OldTokens::kTrain),
           "(4) no group is too old");
  }
  for (const auto& [id, group] : ledger_.groups) {
    const bool replaced =
        group.reason == DropReason::kNoSignal || group.reason == DropReason::kDamaged;
    if (!replaced || group.step != step) continue;
    counts.Add(ClassOf(*ledger_.accepted.at(id).head));
  }
  Expect(counts == plan.collapse.step, "(8) the plan's ACR is that of the groups drawn for it");
  CheckWindow();
}

void RunSimulation::CheckWindow() {
  for (const std::uint64_t waiting : scheduler_.groups().line()) {
    const auto passed = std::ranges::count_if(ledger_.groups, [&](const auto& entry) {
      return entry.first > waiting && entry.second.step > 0 &&
             entry.second.reason != DropReason::kNoSignal;
    });
    Expect(passed < options_.window, "(4) no more than W - 1 younger groups pass one");
  }
}

void RunSimulation::Train() {
  const std::uint64_t step = learner_.step + 1;
  LedgerChanges changes;
  const Status status = scheduler_.Commit(learner_.epoch, step, changes);
  Finish(changes);
  const bool planned = plans_.contains(step) && step <= scheduler_.run().planned_step;
  Expect(status.ok() == (planned && !holes_.contains(step)), "a planned step can be committed");
  if (status.ok()) learner_.step = step;
}

void RunSimulation::Announce() {
  if (learner_.epoch == 0) return;
  const PolicyVersion version{learner_.epoch, learner_.step,
                              Sha256Of("weights " + std::to_string(learner_.step))};
  LedgerChanges changes;
  const Status status = scheduler_.Announce(learner_.epoch, {version, "manifest"}, changes);
  for (const auto& [id, group] : ledger_.groups) {
    if (group.state == GroupState::kTrained && group.step <= version.step) released_.insert(id);
  }
  Finish(changes);
  Expect(status.ok(), "a committed version can be announced");
  Expect(scheduler_.weights() != nullptr && scheduler_.weights()->version == version,
         "(6) versions only rise");
  announced_ = version;
  LedgerChanges old;
  Expect(scheduler_.Announce(learner_.epoch - 1, {version, ""}, old).code() ==
                 StatusCode::kFailedPrecondition &&
             old.empty(),
         "an old learner is refused");
}

void RunSimulation::Checkpoint(bool lossy) {
  learner_.checkpoints.push_back({learner_.epoch, learner_.step, ""});
  if (lossy && Chance(30)) return;  // it dies before it reports the checkpoint
  LedgerChanges changes;
  const Status status =
      scheduler_.Checkpointed(learner_.epoch, learner_.step, Sha256Of("checkpoint"), changes);
  if (lossy && Chance(10)) scheduler_.EndEarly("simulated", changes);
  Finish(changes);
  Expect(status.ok(), "what was committed can be checkpointed");
}

void RunSimulation::Finish(const LedgerChanges& changes) {
  CheckMoves(changes);
  for (const std::uint64_t id : changes.returned) {
    taken_back_.Add(ClassOf(*ledger_.accepted.at(id).head));
    NoteFollowed(id);
  }
  Write(changes);
  if (!changes.returned.empty()) CheckCollapse();
  if (!changes.records.empty()) CheckRecords();
  CheckSlots();
  CheckTokens();
}

void RunSimulation::CheckMoves(const LedgerChanges& changes) {
  std::map<std::uint64_t, GroupState> state;
  for (const GroupRow& row : changes.groups) {
    const auto known = ledger_.groups.find(row.group_id);
    if (known != ledger_.groups.end()) state.try_emplace(row.group_id, known->second.state);
    const auto before = state.find(row.group_id);
    const bool fine = before == state.end()
                          ? row.state == GroupState::kPending
                          : before->second == row.state || Allowed(before->second, row.state);
    Expect(fine, "(1)(2) group " + std::to_string(row.group_id) + " moves along the diagram to " +
                     std::string(GroupStateName(row.state)));
    Expect(row.state != GroupState::kLeased || (!row.worker_id.empty() && row.lease_epoch > 0),
           "(1) a lease has a holder");
    state[row.group_id] = row.state;
  }
}

void RunSimulation::CheckSlots() {
  std::int64_t active = 0;
  std::array<std::int64_t, kGroupStates> counts{};
  for (const auto& [id, group] : ledger_.groups) {
    using enum GroupState;
    ++counts[static_cast<std::size_t>(group.state)];
    const bool planned = group.state == kBatched || group.state == kTrained;
    Expect((group.state == kLeased) == !scheduler_.leases().OfGroup(id).empty(),
           "(1) a leased group has a lease, and no other has one");
    if (group.state == kLeased || group.state == kReady || (planned && !released_.contains(id)))
      ++active;
  }
  const std::int64_t budget = ActiveSlotBudget(options_.prompts, most_age_);
  Expect(active <= budget,
         "(3) " + std::to_string(active) + " active slots exceed " + std::to_string(budget));
  Expect(active == scheduler_.GetStatus().active_slots, "(3) slots are counted as they are held");
  Expect(counts == scheduler_.GetStatus().groups,
         "(1) the counts of states are those of the ledger");
}

// The account closes, and what it says of groups is a recount of the ledger.
void RunSimulation::CheckTokens() {
  const TokenAccount account = scheduler_.GetStatus().tokens;
  Expect(account.difference() == 0, "the account of tokens closes");
  std::int64_t trained = 0, masked = 0;
  for (const auto& [id, group] : ledger_.groups) {
    if (group.state != GroupState::kTrained && group.state != GroupState::kSettled) continue;
    const v1::GroupHead& head = *ledger_.accepted.at(id).head;
    trained += TrainedTokensOf(head);
    masked += TokensOf(head) - TrainedTokensOf(head);
  }
  Expect(account.trained == trained && account.masked == masked,
         "trained and masked tokens are those of the groups");
}

// Counts the groups that are taken back although a later one of the prompt has ended.
void RunSimulation::NoteFollowed(std::uint64_t group_id) {
  const std::uint64_t prompt = ledger_.groups.at(group_id).prompt.row;
  const bool followed = std::ranges::any_of(ledger_.accepted, [&](const auto& entry) {
    const GroupRow& group = ledger_.groups.at(entry.first);
    const bool ended = group.state == GroupState::kDropped || group.state == GroupState::kSettled;
    return ended && group.prompt.row == prompt &&
           entry.second.place() > ledger_.accepted.at(group_id).place();
  });
  if (followed) ++followed_;
}

void RunSimulation::CheckRecords() {
  std::map<std::pair<PayloadEnd, std::uint64_t>, const AcceptedGroup*> accepted;
  for (const auto& [id, row] : ledger_.accepted) accepted.emplace(row.place(), &row);
  std::map<std::uint64_t, PromptRecord> recount;
  for (const auto& [place, row] : accepted) {
    const DrawnPrompt& prompt = ledger_.groups.at(row->id()).prompt;
    const v1::GroupHead& head = *row->head;
    PromptRecord& record = recount[prompt.row];
    Expect(RecordOf(head) == record, "a group knows the record of its prompt before it");
    const auto [raw_rewards, outcomes] = VerdictsOf(head);
    AddGroup(raw_rewards, outcomes, ClassOf(head), prompt.pass, options_.selection.mopps.decay,
             record);
  }
  for (const auto& [row, record] : recount)
    Expect(ledger_.records.at(row) == record, "the record of a prompt equals a recount");
}

void RunSimulation::CheckCollapse() {
  const SchedulerStatus status = scheduler_.GetStatus();
  CollapseCounts reported = status.collapse, ledger;
  reported.Add(taken_back_);
  Expect(reported == accepted_, "(8) the reported ACR equals a recount");
  for (const auto& [id, row] : ledger_.accepted) {
    const auto [raw_rewards, outcomes] = VerdictsOf(*row.head);
    ledger.Add(ClassifyGroup(raw_rewards, outcomes));
  }
  ledger.Add(taken_back_);
  Expect(ledger == accepted_, "(8) the ledger's outcomes equal a recount");
}

}  // namespace buttress
