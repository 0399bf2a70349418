// The workers' side of the scheduler: which leases are granted, and how they end without a
// delivery.
#include <algorithm>
#include <utility>
#include <vector>

#include "coordinator/schedule/scheduler.h"

namespace buttress {

Status Scheduler::RegisterWorker(const JoiningWorker& worker, std::int64_t now_ms,
                                 LedgerChanges& out) {
  now_ms_ = std::max(now_ms_, now_ms);
  BUTTRESS_RETURN_IF_ERROR(workers_.Check(worker, run_.run_id, now_ms_));
  std::vector<HeldLease> lost = leases_.Of(worker.id);
  std::erase_if(lost, [&](const HeldLease& l) { return l.incarnation == worker.incarnation; });
  for (const HeldLease& lease : lost)
    EndLease(lease, LeaseEnd::kLost, static_cast<std::int64_t>(lost.size()), out);
  events_.leases_lost_with_worker += static_cast<std::int64_t>(lost.size());
  workers_.Register(worker, run_.coordinator_epoch, now_ms);
  return OkStatus();
}

Result<ExchangeReply> Scheduler::Exchange(const WorkerExchange& request, std::int64_t now_ms,
                                          LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(
      workers_.CheckCaller(request.worker_id, request.incarnation, request.secret_sha256));
  now_ms_ = std::max(now_ms_, now_ms);
  workers_.Hear(request.worker_id, request.loaded_version, now_ms);
  tokens_.Report(request.worker_id, request.incarnation, request.tokens);
  ExchangeReply reply;
  KeepPartials(request);
  EndReturned(request, out);
  Renew(request, reply);
  if (workers_.OrderOf(request.worker_id) == WorkerOrder::kNone) GrantNew(request, reply, out);
  return reply;
}

void Scheduler::KeepPartials(const WorkerExchange& request) {
  if (request.partials.empty() || options_.deterministic) return;
  partials_.ForgetIf([this](std::uint64_t id) {
    const GroupRow* const group = groups_.Find(id);
    return group == nullptr ||
           (group->state != GroupState::kPending && group->state != GroupState::kLeased);
  });
  for (const auto& [lease, partial] : request.partials) {
    if (!Holds(request.worker_id, request.incarnation, lease)) continue;
    const bool known = partial.completion < groups_.Find(lease.group_id)->prompt.completions &&
                       std::ranges::none_of(partial.segments, [this](const Segment& segment) {
                         return OlderThan(announced_->version, segment.version);
                       });
    if (known) partials_.Add(lease, partial);
  }
}

// Returns whether a lease of the group may continue what an earlier one began. Where old tokens are
// masked, a completion that has ended and has no other tokens is of no use.
bool Scheduler::MayContinue(const GroupRow& group, const PartialCompletion& partial) const {
  const auto is_old = [&](const Segment& segment) {
    return segment.version.step < group.min_version.step;
  };
  for (const Segment& segment : partial.segments) {
    if (lineage_.Abandoned(segment.version)) return false;
    if (options_.old_tokens == OldTokens::kDrop && is_old(segment)) return false;
  }
  return options_.old_tokens != OldTokens::kMask || !partial.ended() ||
         !is_old(partial.segments.back());
}

void Scheduler::EndReturned(const WorkerExchange& request, LedgerChanges& out) {
  const auto end = [&](const LeaseRef& ref, LeaseEnd how) {
    const HeldLease* const held = leases_.Find(ref, request.worker_id, request.incarnation);
    if (held == nullptr) return;
    ++events_.leases_returned;
    EndLease(HeldLease(*held), how, 1, out);
  };
  for (const ReturnedLease& returned : request.returned) {
    switch (returned.reason) {
      case ReturnReason::kDraining:
        end(returned.ref, request.capacity == 0 ? LeaseEnd::kNoFault : LeaseEnd::kUnable);
        break;
      case ReturnReason::kWeightsUnavailable:
        end(returned.ref, LeaseEnd::kUnable);
        break;
      case ReturnReason::kEngineFailed:
      case ReturnReason::kUnspecified:
        end(returned.ref, LeaseEnd::kFailed);
        break;
    }
  }
  // A group that the worker has finished and that it still holds was refused.
  for (const LeaseRef& ref : request.finished) end(ref, LeaseEnd::kFailed);
}

void Scheduler::Renew(const WorkerExchange& request, ExchangeReply& reply) {
  std::vector<LeaseRef> named = request.held;
  std::ranges::sort(named);
  leases_.Renew(request.worker_id, now_ms_);
  std::size_t known = 0;
  for (const HeldLease& lease : leases_.Of(request.worker_id)) {
    if (std::ranges::binary_search(named, lease.ref)) {
      ++known;
    } else {
      reply.leases.push_back(MakeLease(lease.ref));
    }
  }
  if (known < named.size()) Revoke(request, reply);
}

void Scheduler::Revoke(const WorkerExchange& request, ExchangeReply& reply) const {
  for (const LeaseRef& ref : request.held) {
    if (Holds(request.worker_id, request.incarnation, ref)) continue;
    const GroupRow* group = groups_.Find(ref.group_id);
    // The group was accepted under this lease; the worker does not know it yet.
    const bool accepted = group != nullptr && group->state != GroupState::kPending &&
                          group->state != GroupState::kLeased &&
                          groups_.accepted(ref.group_id).lease_epoch == ref.lease_epoch &&
                          group->worker_id == request.worker_id;
    if (!accepted) reply.revoked.push_back(ref);
  }
}

void Scheduler::Strike(const HeldLease& lease, LedgerChanges& out) {
  if (auto order = workers_.Strike(lease.worker_id, lease.ref.group_id, lease.granted_ms, now_ms_))
    out.orders.push_back(*std::move(order));
}

void Scheduler::EndLease(const HeldLease& lease, LeaseEnd end, std::int64_t held,
                         LedgerChanges& out) {
  const std::uint64_t id = lease.ref.group_id;
  const bool own_failure = end == LeaseEnd::kFailed || (end == LeaseEnd::kLost && held == 1);
  if (end == LeaseEnd::kLost && held > 1) {
    leases_.Suspect(id, held / 2);
  } else if (end != LeaseEnd::kNoFault) {
    leases_.NoteFailure(id, lease.worker_id, now_ms_);
  }
  if (end != LeaseEnd::kNoFault) Strike(lease, out);
  const bool others = leases_.End(lease.ref);
  if (own_failure && groups_.Find(id)->attempts >= options_.max_attempts) {
    leases_.Close(id);
    groups_.Drop(id, DropReason::kPoison, out);
  } else if (!others) {
    groups_.Move(id, GroupState::kPending, out, [&](GroupRow& group) {
      if (!own_failure) --group.attempts;
      group.worker_id.clear();
      group.incarnation = 0;
    });
  } else if (own_failure) {
    groups_.Edit(id, out, [](GroupRow& group) { ++group.attempts; });
  }
}

void Scheduler::Expire(std::int64_t now_ms, LedgerChanges& out) {
  now_ms_ = std::max(now_ms_, now_ms);
  for (const auto& [lease, at_limit, held] : leases_.Expired(now_ms)) {
    // An earlier one of them may have dropped the group.
    if (!Holds(lease.worker_id, lease.incarnation, lease.ref)) continue;
    ++events_.leases_expired;
    EndLease(lease, at_limit ? LeaseEnd::kFailed : LeaseEnd::kLost, held, out);
  }
  workers_.ForgetSilent(now_ms);
}

void Scheduler::GrantNew(const WorkerExchange& request, ExchangeReply& reply, LedgerChanges& out) {
  Room room{request.capacity - static_cast<std::int64_t>(reply.leases.size()), 0, Leases::kNoBound};
  if (room.capacity <= 0) return;
  for (const HeldLease& lease : leases_.Of(request.worker_id)) {
    ++room.held;
    room.most = std::min(room.most, leases_.MostHeldWith(lease.ref.group_id));
  }
  const std::int64_t leasable = LeasableLine();
  const auto& pending = groups_.pending();
  for (auto next = pending.begin(); room.any() && next != pending.end();) {
    const std::uint64_t id = *next++;
    if (static_cast<std::int64_t>(groups_.line().order_of_key(id)) >= leasable) break;
    if (!Fits(id, request.worker_id, room)) continue;
    Grant(id, request, room, reply, out);
    ++events_.leases_granted;
  }
  if (leasable > 0) GrantLate(request, room, reply, out);
}

void Scheduler::GrantLate(const WorkerExchange& request, Room& room, ExchangeReply& reply,
                          LedgerChanges& out) {
  if (!room.any()) return;
  for (const std::uint64_t id : leases_.Late(now_ms_)) {
    if (!room.any()) return;
    const bool holds = std::ranges::any_of(leases_.OfGroup(id), [&](const HeldLease& lease) {
      return lease.worker_id == request.worker_id;
    });
    if (holds || !Fits(id, request.worker_id, room)) continue;
    Grant(id, request, room, reply, out);
    ++events_.leases_shared;
  }
}

// Returns whether the worker may hold the group: neither a suspect nor one that should go to
// another worker because it failed at this one.
bool Scheduler::Fits(std::uint64_t group_id, const std::string& worker_id, const Room& room) const {
  if (room.held >= leases_.MostHeldWith(group_id)) return false;
  const std::int64_t since_ms = now_ms_ - options_.lease_ms;
  if (!leases_.HasFailed(group_id, worker_id, since_ms)) return true;
  return !workers_.AnyOther(worker_id, now_ms_, [&](const std::string& other) {
    return !leases_.HasFailed(group_id, other, since_ms);
  });
}

// Leases a pending group, or a leased one to a further worker: it keeps its versions then, and it
// is no further attempt.
void Scheduler::Grant(std::uint64_t group_id, const WorkerExchange& request, Room& room,
                      ExchangeReply& reply, LedgerChanges& out) {
  const auto index = static_cast<std::int64_t>(groups_.line().order_of_key(group_id));
  // If no younger group passes it, the group trains in step planned + index / P + 1, which starts
  // from version planned + index / P.
  const std::int64_t start_version =
      static_cast<std::int64_t>(run_.planned_step) + index / options_.prompts;
  const std::uint64_t epoch = announced_->version.learner_epoch;
  // Only a group that fills an older plan would have to be younger than the newest version.
  const auto oldest = std::min(
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, start_version - rules_.max_age)),
      announced_->version.step);
  groups_.Move(group_id, GroupState::kLeased, out, [&](GroupRow& group) {
    ++group.lease_epoch;
    group.worker_id = request.worker_id;
    group.incarnation = request.incarnation;
    if (group.state == GroupState::kLeased) return;
    ++group.attempts;
    group.min_version = {epoch, std::max(oldest, lineage_.StartStep(epoch)), ""};
    group.granted_version = {epoch, announced_->version.step, ""};
  });
  const LeaseRef ref = {group_id, groups_.Find(group_id)->lease_epoch};
  leases_.Grant({ref, request.worker_id, request.incarnation, now_ms_});
  reply.leases.push_back(MakeLease(ref));
  for (const PartialCompletion& partial : reply.leases.back().partials)
    events_.tokens_continued += partial.end();
  room.most = std::min(room.most, leases_.MostHeldWith(group_id));
  ++room.held;
  --room.capacity;
}

GrantedLease Scheduler::MakeLease(const LeaseRef& ref) {
  const GroupRow& group = *groups_.Find(ref.group_id);
  GrantedLease lease;
  lease.ref = ref;
  lease.prompt = group.prompt;
  lease.min_version = group.min_version;
  lease.min_version.digest = DigestOf(group.min_version).value_or("");
  lease.exact_version = options_.deterministic;
  lease.ttl_ms = options_.lease_ms;
  lease.partials = partials_.HandOver(
      ref, [&](const PartialCompletion& partial) { return MayContinue(group, partial); });
  return lease;
}

}  // namespace buttress
