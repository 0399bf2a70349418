#include "tests/simulation/checker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
#include "lib/experience/episodes.h"
#include "lib/rl/staleness.h"

namespace buttress::simulation {
namespace {

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
      return to == kBatched || to == kSettled || to == kDropped;  // by an operator
    case kSettled:
    case kDropped:
      return false;
  }
  return false;
}

// Of so many transactions, the state is restored from one.
constexpr std::uint64_t kWritesOfARestore = 8;

bool HasEnded(GroupState state) {
  return state == GroupState::kSettled || state == GroupState::kDropped;
}

PolicyVersion OldestOf(const v1::GroupHead& head) {
  return {head.versions(0).learner_epoch(), head.versions(0).step(), ""};
}

CollapseClass RecountOf(const v1::GroupHead& head) {
  const auto [raw_rewards, outcomes] = VerdictsOf(head);
  return ClassifyGroup(raw_rewards, outcomes);
}

}  // namespace

Checker::Checker(World& world, const SchedulerOptions& promised)
    : world_(world), promised_(promised) {
  history_.most_age = promised.max_age;
}

bool Checker::Abandoned(const PolicyVersion& version) const {
  return std::ranges::any_of(history_.ledger.learners, [&](const LearnerRow& start) {
    return start.learner_epoch > version.learner_epoch && start.start_step < version.step;
  });
}

// What MemoryLedger REQUIRES.
bool Checker::Applies(const LedgerChanges& changes) {
  const MemoryLedger& ledger = history_.ledger;
  for (const AcceptedGroup& row : changes.accepted) {
    const bool again =
        ledger.accepted.contains(row.id()) && std::ranges::count(changes.returned, row.id()) == 0;
    Expect(!again, "(8) a group is accepted once");
  }
  for (const PlanRow& row : changes.plans)
    Expect(!ledger.plans.contains(row.step), "(5) a step is planned once");
  for (const RefillRow& row : changes.refills) {
    const auto plan = ledger.plans.find(row.plan.step);
    const bool lost = std::ranges::any_of(changes.drops, [&](const DropRow& drop) {
      return drop.step == row.plan.step && drop.position == row.position;
    });
    Expect(lost || (plan != ledger.plans.end() && plan->second.group_ids[row.position] == 0),
           "(5) a place of a plan is filled once");
  }
  for (const auto& [id, row] : changes.changed)
    Expect(ledger.accepted.contains(id), "only accepted groups change");
  return world_.failure().empty();
}

void Checker::Written(const LedgerChanges& changes, const Scheduler* scheduler) {
  history_.unknown.reset();
  if (changes.empty() || !Applies(changes)) return;
  CheckMoves(changes);
  for (const std::uint64_t id : changes.returned) {
    const auto accepted = history_.ledger.accepted.find(id);
    Expect(accepted != history_.ledger.accepted.end(), "only what was accepted is taken back");
    if (accepted == history_.ledger.accepted.end()) return;
    history_.taken_back.Add(ClassOf(*accepted->second.head));
  }
  for (const AcceptedGroup& row : changes.accepted) {
    history_.accepted.Add(ClassOf(*row.head));
    Expect(!Abandoned(OldestOf(*row.head)), "(6) an abandoned version is not accepted");
    Expect(row.head->outcomes_size() > 0, "a group has completions");
  }
  if (changes.run && history_.ledger.run) {
    const RunRow& before = *history_.ledger.run;
    Expect(changes.run->learner_epoch >= before.learner_epoch, "learner epochs rise");
    Expect(changes.run->coordinator_epoch >= before.coordinator_epoch, "coordinator epochs rise");
    Expect(changes.run->next_group_id >= before.next_group_id, "group ids rise");
    Expect(changes.run->settled_step >= before.settled_step, "what is settled stays settled");
    Expect(changes.run->run_id == before.run_id, "a run keeps its id");
  }
  Expect(changes.drops.empty() || damaged_, "no payload is damaged but by a fault");
  for (const DropRow& row : changes.drops)
    if (row.step != 0) history_.holes.insert(row.step);
  const bool new_starts = !changes.starts.empty();
  if (new_starts && !history_.ledger.starts.empty()) {
    Expect(
        changes.starts.back().coordinator_epoch > history_.ledger.starts.back().coordinator_epoch,
        "every start of the coordinator has an epoch of its own");
  }
  orders_before_ = history_.ledger.orders;
  max_age_before_ = MaxAgeOrdered();
  history_.ledger.Write(changes);
  for (const GroupRow& row : changes.groups)
    if (row.state == GroupState::kDropped)
      world_.Count(fmt::format("dropped: {}", DropReasonName(row.reason)));
  if (scheduler == nullptr) return;
  history_.most_age = std::max(history_.most_age, scheduler->max_age());
  for (const PlanRow& plan : changes.plans) CheckPlan(plan, !changes.learners.empty());
  if (!changes.plans.empty() || !changes.refills.empty()) CheckWindow(*scheduler);
  if (!changes.accepted.empty() || !changes.returned.empty()) CheckCollapse(*scheduler);
  if (!changes.records.empty()) CheckRecords();
  if (!changes.accepted.empty()) CheckReplaced();
  CheckSlots(*scheduler);
  CheckTokens(*scheduler);
  if (++written_ % kWritesOfARestore == 0) CheckRestores(*scheduler);
}

void Checker::CheckMoves(const LedgerChanges& changes) {
  std::map<std::uint64_t, GroupState> state;
  for (const GroupRow& row : changes.groups) {
    const auto known = history_.ledger.groups.find(row.group_id);
    if (known != history_.ledger.groups.end()) state.try_emplace(row.group_id, known->second.state);
    const auto before = state.find(row.group_id);
    const bool fine = before == state.end()
                          ? row.state == GroupState::kPending
                          : before->second == row.state || Allowed(before->second, row.state);
    if (!fine) {
      world_.Fail(fmt::format("(1)(2) group {} moves from {} to {}", row.group_id,
                              before == state.end() ? "nowhere" : GroupStateName(before->second),
                              GroupStateName(row.state)));
    }
    Expect(before == state.end() || before->second != GroupState::kTrained ||
               row.state != GroupState::kDropped || row.reason == DropReason::kDamaged,
           "(2) a trained group is given up by an operator alone");
    const bool waits = before != state.end() && (before->second == GroupState::kPending ||
                                                 before->second == GroupState::kLeased);
    Expect(!waits || row.reason != DropReason::kStale, "a worker's group is not dropped as stale");
    Expect(row.reason != DropReason::kPoison || row.attempts >= promised_.max_attempts,
           "a group is poison after all of its attempts");
    Expect(row.state != GroupState::kLeased || (!row.worker_id.empty() && row.lease_epoch > 0),
           "(1) a lease has a holder");
    std::uint64_t& fence = history_.fences[row.group_id];
    const bool granted = row.state == GroupState::kLeased && before != state.end() &&
                         before->second == GroupState::kPending;
    Expect(!granted || row.lease_epoch > fence, "(1) the epoch of a lease rises with every grant");
    fence = std::max(fence, row.lease_epoch);
    if (before != state.end() && before->second != row.state) {
      world_.Count(fmt::format("moved: {} to {}", GroupStateName(before->second),
                               GroupStateName(row.state)));
    }
    state[row.group_id] = row.state;
  }
}

void Checker::CheckSlots(const Scheduler& scheduler) {
  std::int64_t active = 0, admitted = 0;
  std::array<std::int64_t, kGroupStates> counts{};
  for (const auto& [id, group] : history_.ledger.groups) {
    using enum GroupState;
    ++admitted;
    ++counts[static_cast<std::size_t>(group.state)];
    Expect((group.state == kLeased) == !scheduler.leases().OfGroup(id).empty(),
           "(1) a leased group has a lease, and no other has one");
    const bool sampled = group.state == kLeased || group.state == kReady;
    Expect(!sampled || group.holds_slot, "(3) a leased or ready group holds a slot");
    Expect(!HasEnded(group.state) || !group.holds_slot, "(3) a group that has ended holds none");
    active += group.holds_slot ? 1 : 0;
  }
  Expect(admitted + 1 == static_cast<std::int64_t>(scheduler.run().next_group_id),
         "(I1) every admitted group is in one state");
  Expect(active <= ActiveSlotBudget(promised_.prompts, history_.most_age),
         "(3) there are more active slots than the budget has");
  Expect(active == scheduler.groups().active_slots(), "(3) slots are counted as they are held");
  Expect(counts == scheduler.groups().counts(), "(1) the counts of states are those of the ledger");
}

// The account closes, and what it says of groups is a recount of the ledger.
void Checker::CheckTokens(const Scheduler& scheduler) {
  const TokenAccount account = scheduler.GetStatus().tokens;
  Expect(account.difference() == 0, "the account of tokens closes");
  std::int64_t trained = 0, masked = 0;
  for (const auto& [id, group] : history_.ledger.groups) {
    if (group.state != GroupState::kTrained && group.state != GroupState::kSettled) continue;
    const auto accepted = history_.ledger.accepted.find(id);
    Expect(accepted != history_.ledger.accepted.end(), "a trained group has content");
    if (accepted == history_.ledger.accepted.end()) return;
    trained += TrainedTokensOf(*accepted->second.head);
    masked += TokensOf(*accepted->second.head) - TrainedTokensOf(*accepted->second.head);
  }
  Expect(account.trained == trained && account.masked == masked,
         "trained and masked tokens are those of the groups");
}

void Checker::CheckCollapse(const Scheduler& scheduler) {
  CollapseCounts reported = scheduler.GetStatus().collapse, ledger;
  reported.Add(history_.taken_back);
  Expect(reported == history_.accepted, "(8) the reported ACR equals a recount");
  for (const auto& [id, row] : history_.ledger.accepted) ledger.Add(RecountOf(*row.head));
  ledger.Add(history_.taken_back);
  Expect(ledger == history_.accepted, "(8) the ledger's outcomes equal a recount");
}

void Checker::CheckRecords() {
  std::map<std::pair<PayloadEnd, std::uint64_t>, const AcceptedGroup*> accepted;
  for (const auto& [id, row] : history_.ledger.accepted) accepted.emplace(row.place(), &row);
  std::map<std::uint64_t, PromptRecord> recount;
  for (const auto& [place, row] : accepted) {
    const DrawnPrompt& prompt = history_.ledger.groups.at(row->id()).prompt;
    PromptRecord& record = recount[prompt.row];
    Expect(RecordOf(*row->head) == record, "a group knows the record of its prompt before it");
    const auto [raw_rewards, outcomes] = VerdictsOf(*row->head);
    AddGroup(raw_rewards, outcomes, ClassOf(*row->head), prompt.pass,
             promised_.selection.mopps.decay, record);
  }
  for (const auto& [row, record] : recount) {
    const auto found = history_.ledger.records.find(row);
    Expect(found != history_.ledger.records.end() && found->second == record,
           "the record of a prompt equals a recount");
  }
}

// Cap and budget of run.batch.zero_variance: resample.
void Checker::CheckReplaced() {
  std::map<std::uint64_t, std::int64_t> replaced;  // by step
  std::int64_t all = 0;
  for (const auto& [id, group] : history_.ledger.groups) {
    if (group.reason != DropReason::kNoSignal) continue;
    ++all;
    Expect(++replaced[group.step] <= promised_.replace_cap, "no more groups are replaced than may");
    Expect(ClassOf(*history_.ledger.accepted.at(id).head) != CollapseClass::kMixed,
           "no group with a signal is replaced");
  }
  Expect(all == 0 || promised_.resample, "groups are replaced where the run says so");
  Expect(promised_.replace_budget == 0 || all <= promised_.replace_budget,
         "no more groups are replaced in all than may");
}

void Checker::CheckRestores(const Scheduler& scheduler) {
  LedgerChanges start;
  const auto restored = Scheduler::Restore(promised_, history_.ledger.Load(), 0, start);
  Expect(restored.ok() && restored->SameState(scheduler), "the ledger gives back the same state");
}

void Checker::CheckWindow(const Scheduler& scheduler) {
  for (const std::uint64_t waiting : scheduler.groups().line()) {
    const auto passed = std::ranges::count_if(history_.ledger.groups, [&](const auto& entry) {
      return entry.first > waiting && entry.second.step > 0 &&
             entry.second.reason != DropReason::kNoSignal;
    });
    Expect(passed < promised_.window, "(4) no more than W - 1 younger groups pass one");
  }
}

std::int64_t Checker::MaxAgeOrdered() const {
  const std::optional<RunRow>& run = history_.ledger.run;
  return run ? run->ordered_max_age.value_or(promised_.max_age) : promised_.max_age;
}

void Checker::CheckPlan(const PlanRow& plan, bool went_back) {
  Expect(static_cast<std::int64_t>(plan.group_ids.size()) == promised_.prompts,
         "(5) a plan has P groups");
  CollapseCounts counts;
  for (const std::uint64_t id : plan.group_ids) {
    if (id == 0) continue;
    const auto accepted = history_.ledger.accepted.find(id);
    Expect(accepted != history_.ledger.accepted.end(), "(5) a planned group has content");
    if (accepted == history_.ledger.accepted.end()) return;
    const v1::GroupHead& head = *accepted->second.head;
    counts.Add(RecountOf(head));
    const std::int64_t age =
        static_cast<std::int64_t>(plan.step) - 1 - static_cast<std::int64_t>(OldestOf(head).step);
    // An order may follow the plan in the same turn.
    const std::int64_t bound =
        MaxAge(promised_.prompts, std::max(max_age_before_, MaxAgeOrdered()), promised_.window);
    Expect(went_back || !Abandoned(OldestOf(head)),
           "no group of an abandoned version gets into a new plan");
    Expect(age >= 0 && (age <= bound || promised_.old_tokens == OldTokens::kTrain),
           "(4) no group is too old");
    Expect(history_.ledger.groups.at(id).step == plan.step, "(5) a group is in one plan");
  }
  for (const auto& [id, group] : history_.ledger.groups) {
    const bool replaced =
        group.reason == DropReason::kNoSignal || group.reason == DropReason::kDamaged;
    if (replaced && group.step == plan.step && history_.ledger.accepted.contains(id))
      counts.Add(ClassOf(*history_.ledger.accepted.at(id).head));
  }
  const bool filled = std::ranges::count(plan.group_ids, std::uint64_t{0}) == 0;
  Expect(!filled || counts == plan.collapse.step,
         "(8) the plan's ACR is that of the groups drawn for it");
}

void Checker::Loaded(const LedgerSnapshot& found) {
  if (found == history_.ledger.Load()) {
    history_.unknown.reset();
    return;
  }
  Expect(history_.unknown.has_value(), "(I6) a change that was acknowledged is gone");
  if (!history_.unknown) return;
  const LedgerChanges changes = *history_.unknown;
  Written(changes, nullptr);
  Expect(found == history_.ledger.Load(), "(I6) a change is there in part");
  world_.Count("an unacknowledged change was durable");
}

void Checker::Restored(const Scheduler& scheduler) {
  const RunRow& run = scheduler.run();
  Expect(!history_.ledger.run || run.coordinator_epoch > history_.ledger.run->coordinator_epoch,
         "(I8) the coordinator epoch rises with every start");
  Expect(run.coordinator_epoch > history_.started,
         "(I8) no two starts of the coordinator have one epoch");
}

void Checker::Granted(const v1::ExchangeResponse& response) {
  for (const v1::Lease& lease : response.leases()) {
    for (const v1::PartialCompletion& proto : lease.partials()) {
      const auto partial = FromProto(proto);
      Expect(partial.ok() && partial->first_token == 0,
             "a lease continues what was reported, from its first token on");
      Expect(!promised_.deterministic, "a deterministic group is sampled from its prompt");
      if (!partial.ok()) return;
      PolicyVersion before;
      for (const auto& [begin, version] : partial->segments) {
        Expect(!Abandoned(version), "no token of an abandoned version is continued");
        Expect(!OlderThan(version, before), "(6) versions only rise");
        Expect(
            promised_.old_tokens != OldTokens::kDrop || version.step >= lease.min_version().step(),
            "old tokens are dropped");
        before = version;
      }
    }
  }
}

void Checker::Answered(const v1::ExchangeRequest& request, const v1::ExchangeResponse& response) {
  for (const v1::Lease& lease : response.leases()) {
    const auto group = history_.ledger.groups.find(lease.ref().group_id());
    const auto fence = history_.fences.find(lease.ref().group_id());
    const bool durable = group != history_.ledger.groups.end() && fence != history_.fences.end() &&
                         fence->second >= lease.ref().lease_epoch();
    Expect(durable, "(I6) a lease that a worker learns of is durable");
    if (!durable) continue;
    const auto& announced = history_.ledger.announced;
    Expect(announced && !OlderThan(announced->version, *FromProto(lease.min_version())),
           "(6) a lease names a version that is announced");
    Expect(lease.prompt_id() == group->second.prompt.prompt_id, "a lease has the group's prompt");
    Expect(lease.completions() == static_cast<std::uint32_t>(group->second.prompt.completions),
           "a lease asks for the completions that were drawn");
    Expect(!lease.exact_version() || promised_.deterministic, "only exact runs name one version");
    Expect(!promised_.deterministic || lease.exact_version(), "exact runs name one version");
    Expect(!history_.ledger.orders.contains(request.worker_id()) ||
               !orders_before_.contains(request.worker_id()) ||
               std::ranges::any_of(request.held(),
                                   [&](const v1::LeaseRef& ref) {
                                     return ref.group_id() == lease.ref().group_id();
                                   }) ||
               group->second.worker_id == request.worker_id(),
           "a worker that is set aside gets no new lease");
  }
}

void Checker::Answered(const v1::RegisterLearnerRequest& request,
                       const v1::RegisterLearnerResponse& response) {
  const auto& learners = history_.ledger.learners;
  const PolicyVersion start = *FromProto(request.checkpoint());
  // One of the same turn may have registered since.
  Expect(std::ranges::none_of(learners,
                              [&](const LearnerRow& other) {
                                return other.learner_epoch > start.learner_epoch &&
                                       other.learner_epoch < response.learner_epoch() &&
                                       other.start_step < start.step;
                              }),
         "(I8) no learner starts from a checkpoint that the run went on without");
  const auto row =
      std::ranges::find(learners, response.learner_epoch(), &LearnerRow::learner_epoch);
  Expect(row != learners.end() && row->start_step == request.checkpoint().step() &&
             row->secret_sha256 == Sha256Of(response.learner_secret()),
         "(I6) a learner that has an epoch is in the ledger");
  Expect(response.next_step() == request.checkpoint().step() + 1,
         "the learner continues after its checkpoint");
}

std::string Checker::ContentsOf(const std::vector<std::uint64_t>& group_ids) const {
  std::string contents;
  for (const std::uint64_t id : group_ids) {
    const auto accepted = history_.ledger.accepted.find(id);
    if (accepted == history_.ledger.accepted.end()) return "?";
    contents += fmt::format("{}:{} ", id, ToHex(accepted->second.content_sha256));
  }
  return contents;
}

void Checker::Answered(const v1::PlanBatchRequest& request, const v1::PlanBatchResponse& response) {
  if (!response.has_plan()) return;
  const std::uint64_t step = request.step();
  std::vector<std::uint64_t> ids;
  for (const v1::GroupHead& head : response.plan().groups()) ids.push_back(head.group_id());
  const auto row = history_.ledger.plans.find(step);
  Expect(response.plan().step() == step && row != history_.ledger.plans.end() &&
             row->second.group_ids == ids,
         "(I6) a plan that the learner gets is durable");
  const std::string contents = ContentsOf(ids);
  const auto [seen, first] = history_.plans.try_emplace(step, contents);
  if (history_.holes.erase(step) > 0) seen->second = contents;
  Expect(seen->second == contents, "(5) a plan does not change");
}

void Checker::Answered(const v1::CommitRequest& request, const v1::CommitResponse&) {
  const RunRow& run = *history_.ledger.run;
  Expect(run.learner_epoch > request.learner_epoch() || run.committed_step >= request.step(),
         "(I6) a step that is committed is durable");
}

void Checker::Answered(const v1::AnnounceWeightsRequest& request,
                       const v1::AnnounceWeightsResponse&) {
  const auto& announced = history_.ledger.announced;
  const PolicyVersion version = *FromProto(request.manifest().version());
  Expect(announced && !OlderThan(announced->version, version),
         "(I6) a version that is announced is durable");
}

void Checker::Answered(const v1::CheckpointedRequest& request, const v1::CheckpointedResponse&) {
  Expect(history_.ledger.checkpoints.contains({request.learner_epoch(), request.step()}),
         "(I6) a checkpoint that is reported is in the ledger");
  Expect(request.end_reason().empty() || history_.ledger.early_end.has_value(),
         "(I6) the early end of a run is in the ledger");
}

void Checker::Answered(const v1::GetRunStatusRequest&, const v1::GetRunStatusResponse& response) {
  std::uint64_t groups = 0;
  for (const auto& [state, count] : response.groups()) groups += count;
  if (!response.paused().empty()) return;  // the ledger is behind
  Expect(groups + 1 >= history_.ledger.run->next_group_id, "(I1) the status counts every group");
}

// A later order of the same turn may have taken it back.
void Checker::Answered(const v1::OrderWorkerRequest& request,
                       const v1::OrderWorkerResponse& response) {
  Expect(response.worker().worker_id() == request.worker_id(), "an answer is of the worker");
}

void Checker::Answered(const v1::SubmitHeader& header, const v1::SubmitGroupsResponse& response) {
  world_.Count(fmt::format("submitted: {}", v1::SubmitResult_Name(response.result())));
  const auto known = history_.ledger.accepted.find(header.lease().group_id());
  const std::uint64_t id = header.lease().group_id();
  const bool remembered = known != history_.ledger.accepted.end() &&
                          (!HasEnded(history_.ledger.groups.at(id).state) ||
                           id >= FirstEndedTag(history_.ledger.run->next_group_id));
  const bool same = remembered && known->second.content_sha256 == header.content_sha256();
  Expect(!same || response.result() != v1::SUBMIT_RESULT_STALE_FENCE,
         "what was accepted is told so again");
  if (response.result() != v1::SUBMIT_RESULT_ACCEPTED) return;
  // A learner that goes back in the same turn has the group sampled again.
  const auto group = history_.ledger.groups.find(header.lease().group_id());
  if (group != history_.ledger.groups.end() && group->second.state == GroupState::kPending) return;
  const auto accepted = history_.ledger.accepted.find(header.lease().group_id());
  Expect(accepted != history_.ledger.accepted.end() &&
             accepted->second.content_sha256 == header.content_sha256(),
         "(I6) an acknowledged group is in the ledger");
}

void Checker::Fetched(std::uint64_t group_id, const std::string& payload) {
  const auto accepted = history_.ledger.accepted.find(group_id);
  Expect(accepted != history_.ledger.accepted.end() &&
             accepted->second.content_sha256 == Sha256Of(payload),
         "(I5) the learner gets the payload that was accepted");
}

void Checker::Trained(std::uint64_t step, const std::vector<std::uint64_t>& group_ids,
                      const std::string& before, const std::string& after) {
  history_.trained[fmt::format("{} {} {}", step, ContentsOf(group_ids), before)] = after;
}

void Checker::Ended(const std::string& weights) {
  std::string chain = kStartWeights;
  for (const auto& [step, plan] : history_.ledger.plans) {
    const auto trained =
        history_.trained.find(fmt::format("{} {} {}", step, ContentsOf(plan.group_ids), chain));
    Expect(trained != history_.trained.end(), "(I2) what is trained is what was planned");
    if (trained == history_.trained.end()) return;
    chain = trained->second;
  }
  Expect(chain == weights, "(I11) the weights follow from the plans");
  for (const auto& [id, group] : history_.ledger.groups) {
    if (HasEnded(group.state)) continue;
    world_.Fail(fmt::format("(2) group {} is {} after the end of the run", id,
                            GroupStateName(group.state)));
  }
}

void Checker::PutBack(const History& history) { history_ = history; }

}  // namespace buttress::simulation
