// The workers' side of the scheduler: prompts, leases and expiry. scheduler_grants.cc has the
// choice of leases, scheduler_submit.cc submissions, scheduler_learner.cc the learner's side,
// scheduler_operator.cc the operator's.
#include "coordinator/scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/rl/staleness.h"

namespace buttress {
namespace {

// A worker that is silent for this many lease times is removed; it registers again if it comes
// back.
constexpr std::int64_t kRemoveAfterLeases = 20;
// Silent ones among so many relays are passed over.
constexpr std::size_t kRelaysSeen = 16;
constexpr std::size_t kReplacedKept = 16;
constexpr std::size_t kForgottenAtOnce = kMaxWorkers / 16;

}  // namespace

// Returns the index in the line below which groups may be leased (see the head of scheduler.h).
std::int64_t Scheduler::LeasableLine() const {
  if (weights() == nullptr || stop_requested_) return 0;
  const std::int64_t planned = static_cast<std::int64_t>(run_.planned_step) * options_.prompts;
  const auto version = static_cast<std::int64_t>(announced_->version.step);
  const std::int64_t headroom = std::max<std::int64_t>(
      0, LeaseHeadroom(options_.prompts, options_.max_age, version, planned));
  if (missing_ == 0) return headroom;
  const auto count = [&](GroupState state) {
    return groups_.counts()[static_cast<std::size_t>(state)];
  };
  const std::int64_t held_by_plans =
      groups_.active_slots() - count(GroupState::kLeased) - count(GroupState::kReady);
  return std::min(missing_ + headroom,
                  ActiveSlotBudget(options_.prompts, options_.max_age) - held_by_plans);
}

bool Scheduler::MayLease() const {
  if (trials_.MayShare() && LeasableLine() > 0) return true;
  const auto& pending = groups_.pending();
  return !pending.empty() &&
         static_cast<std::int64_t>(groups_.line().Place(*pending.begin())) < LeasableLine();
}

std::int64_t Scheduler::NeedsPrompts() const {
  if (run_.planned_step == options_.steps && missing_ == 0) return 0;
  // The last steps need W - 1 prompts beyond those that they train, so that the last plan need not
  // wait for a slow group either.
  const std::int64_t left =
      static_cast<std::int64_t>(options_.steps - run_.planned_step) * options_.prompts;
  const std::int64_t wanted = std::min(LeasableLine(), missing_ + left + options_.window - 1);
  return std::max<std::int64_t>(0, wanted - static_cast<std::int64_t>(groups_.line().size()));
}

GresoBases Scheduler::greso() const {
  const GresoConfig& greso = options_.selection.greso;
  return run_.greso.value_or(GresoBases{greso.keep_easy, greso.keep_hard});
}

void Scheduler::Admit(std::span<const DrawnPrompt> prompts, std::span<const SkipRow> skipped,
                      std::span<const PromptCursor> cursors, LedgerChanges& out) {
  BUTTRESS_CHECK(static_cast<std::int64_t>(prompts.size()) <= NeedsPrompts(),
                 "no more prompts than are needed");
  for (const DrawnPrompt& prompt : prompts) {
    BUTTRESS_CHECK(prompt.completions >= 1, "a group has completions");
    BUTTRESS_CHECK(!selects_prompts() || records_.Find(prompt.row) != nullptr,
                   "the record of a drawn prompt is remembered");
    GroupRow row;
    row.group_id = run_.next_group_id++;
    row.prompt = prompt;
    groups_.Add(row, out);
    ++events_.prompts_admitted;
  }
  for (const SkipRow& skip : skipped)
    ++skipped_[skip.source][static_cast<std::size_t>(skip.reason)];
  out.skipped.insert(out.skipped.end(), skipped.begin(), skipped.end());
  BUTTRESS_CHECK(cursors.size() == run_.sources.size(), "every source has its cursor");
  for (std::size_t i = 0; i < cursors.size(); ++i) run_.sources[i].cursor = cursors[i];
  records_.Trim(groups_.rows(), out);
  out.run = run_;
}

Status Scheduler::CheckOrigin(const std::string& worker_id, const std::string& run_id,
                              const std::string& start_id) const {
  if (!run_id.empty() && run_id != run_.run_id) {
    return Aborted(fmt::format(
        "worker '{}' belongs to run {}, and this is run {}: what it holds is of no use here",
        worker_id, run_id, run_.run_id));
  }
  if (start_id.empty() || starts_.contains(start_id)) return OkStatus();
  return Aborted(
      fmt::format("worker '{}' has registered with start {} of the coordinator of run {}, which "
                  "this ledger does not know: it is an older copy; what the worker holds is of no "
                  "use here",
                  worker_id, start_id, run_.run_id));
}

void Scheduler::NoteOrigin(const std::string& worker_id, const std::string& start_id) {
  workers_.at(worker_id).joined = start_id.empty() ? run_.coordinator_epoch : starts_.at(start_id);
}

Status Scheduler::CheckWorker(const std::string& worker_id, std::uint64_t incarnation) const {
  const auto worker = workers_.find(worker_id);
  if (worker == workers_.end() || !std::ranges::count(worker->second.replaced, incarnation))
    return OkStatus();
  return FailedPrecondition(fmt::format(
      "worker id '{}' belongs to another process, which has registered later; give each "
      "process a local.worker.id of its own, or none",
      worker_id));
}

Status Scheduler::MakeRoomForWorker(const std::string& worker_id) {
  if (workers_.size() < kMaxWorkers || workers_.contains(worker_id)) return OkStatus();
  std::vector<std::tuple<bool, std::int64_t, std::string>> idle;
  for (const auto& [id, worker] : workers_)
    if (groups_.LeasedBy(id).empty()) idle.emplace_back(worker.exchanged, worker.last_heard_ms, id);
  if (idle.empty()) {
    return ResourceExhausted(
        fmt::format("{} workers hold leases; no more can register", workers_.size()));
  }
  // Many at once, so that a flood of registrations does not look at every worker each time.
  const auto count = static_cast<std::ptrdiff_t>(std::min(idle.size(), kForgottenAtOnce));
  std::partial_sort(idle.begin(), idle.begin() + count, idle.end());
  for (auto gone = idle.begin(); gone != idle.begin() + count; ++gone) {
    relays_.erase(std::get<std::string>(*gone));
    workers_.erase(std::get<std::string>(*gone));
  }
  return OkStatus();
}

void Scheduler::RegisterWorker(const std::string& worker_id, std::uint64_t incarnation,
                               const WorkerAddresses& addresses, std::int64_t now_ms,
                               LedgerChanges& out) {
  std::vector<std::uint64_t> lost;
  for (const std::uint64_t id : groups_.LeasedBy(worker_id)) {
    if (groups_.Find(id)->incarnation != incarnation) lost.push_back(id);
  }
  for (const std::uint64_t id : lost)
    EndLease(id, LeaseEnd::kWorkerReplaced, static_cast<std::int64_t>(lost.size()), out);
  trials_.EndOthers(worker_id, incarnation);
  const bool known = workers_.contains(worker_id);
  WorkerInfo& worker = workers_[worker_id];
  if (known && worker.incarnation != incarnation) {
    worker.loaded_version = {};
    worker.replaced.push_back(worker.incarnation);
    if (worker.replaced.size() > kReplacedKept) worker.replaced.erase(worker.replaced.begin());
  }
  worker.incarnation = incarnation;
  worker.addresses = addresses;
  worker.last_heard_ms = now_ms;
  worker.exchanged = false;
  NoteRelay(worker_id);
}

void Scheduler::NoteRelay(const std::string& worker_id) {
  const WorkerInfo& worker = workers_.at(worker_id);
  const bool serves = announced_ && worker.loaded_version == announced_->version &&
                      !worker.addresses.weights.empty();
  if (serves) {
    relays_.insert(worker_id);
  } else {
    relays_.erase(worker_id);
  }
}

Result<ExchangeReply> Scheduler::Exchange(const WorkerExchange& request, std::int64_t now_ms,
                                          LedgerChanges& out) {
  const auto worker = workers_.find(request.worker_id);
  if (worker == workers_.end() || worker->second.incarnation != request.incarnation) {
    return NotFound(fmt::format(
        "worker '{}' is not registered with this incarnation; register again", request.worker_id));
  }
  now_ms_ = std::max(now_ms_, now_ms);
  worker->second.last_heard_ms = now_ms;
  worker->second.exchanged = true;
  worker->second.loaded_version = request.loaded_version;
  NoteRelay(request.worker_id);

  ExchangeReply reply;
  EndReturned(request, now_ms, out);
  Renew(request, now_ms, reply);
  if (OrderOf(request.worker_id) == WorkerOrder::kNone) GrantNew(request, now_ms, reply, out);
  return reply;
}

bool Scheduler::Holds(const std::string& worker_id, std::uint64_t incarnation,
                      const LeaseRef& ref) const {
  const GroupRow* group = groups_.Find(ref.group_id);
  return group != nullptr && group->state == GroupState::kLeased &&
         group->lease_epoch == ref.lease_epoch && group->worker_id == worker_id &&
         group->incarnation == incarnation;
}

bool Scheduler::Shares(const WorkerExchange& request, const LeaseRef& ref) const {
  return trials_.Has(ref, request.worker_id, request.incarnation);
}

void Scheduler::EndFailed(std::uint64_t group_id, LeaseEnd end, std::int64_t now_ms,
                          LedgerChanges& out) {
  faults_.Failed(group_id, groups_.Find(group_id)->worker_id, now_ms);
  EndLease(group_id, end, 1, out);
}

void Scheduler::EndReturned(const WorkerExchange& request, std::int64_t now_ms,
                            LedgerChanges& out) {
  const auto holds = [&](const LeaseRef& ref) {
    return Holds(request.worker_id, request.incarnation, ref);
  };
  for (const ReturnedLease& returned : request.returned) {
    if (Shares(request, returned.ref)) trials_.End(returned.ref);
    if (!holds(returned.ref)) continue;
    const bool no_fault = returned.reason == ReturnReason::kDraining ||
                          returned.reason == ReturnReason::kWeightsUnavailable;
    if (no_fault) {
      EndLease(returned.ref.group_id, LeaseEnd::kNoFault, 1, out);
    } else {
      EndFailed(returned.ref.group_id, LeaseEnd::kFailed, now_ms, out);
    }
  }
  // A group that the worker has finished and that is still leased was refused.
  for (const LeaseRef& ref : request.finished) {
    if (holds(ref)) EndFailed(ref.group_id, LeaseEnd::kFailed, now_ms, out);
    if (Shares(request, ref)) trials_.End(ref);
  }
}

void Scheduler::Renew(const WorkerExchange& request, std::int64_t now_ms, ExchangeReply& reply) {
  std::vector<LeaseRef> named = request.held;
  std::ranges::sort(named);
  trials_.EndUnnamed(request.worker_id, named);
  deadlines_.Renew(request.worker_id, now_ms + options_.lease_ms);
  std::size_t known = 0;
  for (const std::uint64_t id : groups_.LeasedBy(request.worker_id)) {
    const GroupRow& group = *groups_.Find(id);
    if (std::ranges::binary_search(named, LeaseRef{id, group.lease_epoch})) {
      ++known;
      continue;
    }
    reply.leases.push_back(MakeLease(group));
    ++events_.leases_granted_again;
  }
  if (known < named.size()) Revoke(request, reply);
}

void Scheduler::Revoke(const WorkerExchange& request, ExchangeReply& reply) const {
  for (const LeaseRef& ref : request.held) {
    if (Holds(request.worker_id, request.incarnation, ref) || Shares(request, ref)) continue;
    const GroupRow* group = groups_.Find(ref.group_id);
    // The group was accepted under this lease; the worker does not know it yet.
    const bool accepted = group != nullptr && group->state != GroupState::kPending &&
                          group->state != GroupState::kLeased &&
                          group->lease_epoch == ref.lease_epoch &&
                          group->worker_id == request.worker_id;
    if (!accepted) reply.revoked.push_back(ref);
  }
}

void Scheduler::EndLease(std::uint64_t group_id, LeaseEnd end, std::int64_t held,
                         LedgerChanges& out) {
  switch (end) {
    case LeaseEnd::kExpired:
      ++events_.leases_expired;
      break;
    case LeaseEnd::kWorkerReplaced:
      ++events_.leases_lost_with_worker;
      break;
    case LeaseEnd::kFailed:
    case LeaseEnd::kNoFault:
      ++events_.leases_returned;
      break;
  }
  deadlines_.Erase(group_id);
  const bool own_failure =
      end != LeaseEnd::kNoFault && held == 1 && !OnTrial(groups_.Find(group_id)->worker_id);
  if (own_failure && groups_.Find(group_id)->attempts >= options_.max_attempts) {
    groups_.Drop(group_id, DropReason::kPoison, out);
    suspects_.erase(group_id);
    return;
  }
  if (held > 1) suspects_[group_id] = held / 2;
  groups_.Move(group_id, GroupState::kPending, out, [&](GroupRow& group) {
    if (!own_failure) --group.attempts;
    group.worker_id.clear();
    group.incarnation = 0;
  });
}

void Scheduler::Expire(std::int64_t now_ms, LedgerChanges& out) {
  now_ms_ = std::max(now_ms_, now_ms);
  const std::vector<std::uint64_t> due = deadlines_.Due(now_ms);
  std::map<std::string, std::int64_t> held;  // by worker, before the first lease ends
  for (const std::uint64_t id : due) {
    const std::string& worker = groups_.Find(id)->worker_id;
    if (!held.contains(worker))
      held[worker] = static_cast<std::int64_t>(groups_.LeasedBy(worker).size());
  }
  for (const std::uint64_t id : due) {
    if (deadlines_.limit(id) <= now_ms) {
      const std::string worker_id = groups_.Find(id)->worker_id;
      EndFailed(id, LeaseEnd::kExpired, now_ms, out);
      trials_.Doubt(worker_id);
    } else {
      EndLease(id, LeaseEnd::kExpired, held.at(groups_.Find(id)->worker_id), out);
    }
  }
  EndSharedAtLimit(now_ms, out);
  DoubtLate(now_ms);
  ForgetEndedTrials();

  if (now_ms < workers_checked_ms_ + options_.lease_ms) return;
  workers_checked_ms_ = now_ms;
  std::erase_if(suspects_, [this](const auto& entry) { return !groups_.Find(entry.first); });
  std::erase_if(workers_, [&](const auto& entry) {
    const bool gone = now_ms - entry.second.last_heard_ms > kRemoveAfterLeases * options_.lease_ms;
    if (gone) relays_.erase(entry.first);
    return gone;
  });
  faults_.Sweep([this](std::uint64_t id) { return groups_.Find(id) != nullptr; },
                [this](const std::string& id) { return workers_.contains(id); });
  trials_.Sweep([this](const std::string& id) { return workers_.contains(id); });
}

void Scheduler::EndSharedAtLimit(std::int64_t now_ms, LedgerChanges& out) {
  for (const auto& [ref, shared] : trials_.EndDue(now_ms))
    FailShared(ref.group_id, shared.worker_id, now_ms, out);
}

// The group failed at the worker, whether or not another one has completed it by now.
void Scheduler::FailShared(std::uint64_t group_id, const std::string& worker_id,
                           std::int64_t now_ms, LedgerChanges& out) {
  faults_.Failed(group_id, worker_id, now_ms);
  const GroupRow* const group = groups_.Find(group_id);
  const bool open = group != nullptr &&
                    (group->state == GroupState::kPending || group->state == GroupState::kLeased);
  if (open) return;
  for (const WorkerFaults::Sick& sick : faults_.Accepted(group_id, "")) SetAside(sick, out);
}

std::optional<std::int64_t> Scheduler::NextExpiryMs() const { return deadlines_.earliest(); }

const PublishedWeights* Scheduler::weights() const {
  return announced_ && !lineage_.Abandoned(announced_->version) ? &*announced_ : nullptr;
}

std::optional<std::string> Scheduler::DigestOf(const PolicyVersion& version) const {
  const auto found = digests_.find({version.learner_epoch, version.step});
  return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Scheduler::WeightRelays(const std::string& worker_id,
                                                 std::int64_t now_ms) const {
  std::vector<std::string> relays;
  if (weights() == nullptr) return relays;
  // The ids form a ring, and each worker gets those that follow its own.
  const std::size_t within = std::min(relays_.size(), kRelaysSeen);
  auto next = relays_.upper_bound(worker_id);
  for (std::size_t seen = 0; seen < within && relays.size() < kMaxRelays; ++seen, ++next) {
    if (next == relays_.end()) next = relays_.begin();
    const WorkerInfo& worker = workers_.at(*next);
    if (*next != worker_id && now_ms - worker.last_heard_ms <= options_.lease_ms)
      relays.push_back(worker.addresses.weights);
  }
  return relays;
}

}  // namespace buttress
