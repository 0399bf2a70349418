// Which leases a worker is granted.
#include <algorithm>
#include <limits>

#include "coordinator/scheduler.h"

namespace buttress {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

}  // namespace

void Scheduler::GrantNew(const WorkerExchange& request, std::int64_t now_ms, ExchangeReply& reply,
                         LedgerChanges& out) {
  Room room = RoomOf(request, reply);
  GrantPending(request, now_ms, room, reply, out);
  if (trials_.proven(request.worker_id)) GrantShared(request, now_ms, room, reply, out);
  ForgetEndedTrials();
  trials_.NoteRoom(request.worker_id, room.any());
}

Scheduler::Room Scheduler::RoomOf(const WorkerExchange& request, const ExchangeReply& reply) const {
  Room room{request.capacity - static_cast<std::int64_t>(reply.leases.size()), 0, kNoLimit};
  if (room.capacity <= 0) return room;
  for (const std::uint64_t id : groups_.LeasedBy(request.worker_id)) {
    ++room.held;
    room.most = std::min(room.most, MostHeldWith(id));
  }
  if (!OnTrial(request.worker_id)) return room;
  room.held += trials_.CountOf(request.worker_id);
  std::int64_t most_of_proven = 1;
  for (const auto& [worker_id, groups] : groups_.leased()) {
    if (trials_.proven(worker_id))
      most_of_proven = std::max(most_of_proven, static_cast<std::int64_t>(groups.size()));
  }
  room.most = std::min(room.most, most_of_proven);
  return room;
}

void Scheduler::GrantPending(const WorkerExchange& request, std::int64_t now_ms, Room& room,
                             ExchangeReply& reply, LedgerChanges& out) {
  const std::int64_t leasable = LeasableLine();
  const auto& pending = groups_.pending();
  for (auto next = pending.begin(); room.any() && next != pending.end();) {
    const std::uint64_t id = *next++;
    if (static_cast<std::int64_t>(groups_.line().Place(id)) >= leasable) break;
    if (!Fits(id, request.worker_id, now_ms, room)) continue;
    Grant(id, request, now_ms, room, reply, out);
    ++events_.leases_granted;
    if (!trials_.proven(request.worker_id)) trials_.Lease(id);
  }
}

void Scheduler::GrantShared(const WorkerExchange& request, std::int64_t now_ms, Room& room,
                            ExchangeReply& reply, LedgerChanges& out) {
  if (LeasableLine() == 0) return;
  const auto& groups = trials_.groups();
  for (auto next = groups.begin(); room.any() && next != groups.end();) {
    const std::uint64_t id = *next++;
    if (!MayShare(id)) {
      trials_.Forget(id);
      continue;
    }
    if (!Fits(id, request.worker_id, now_ms, room)) continue;
    const GroupRow& group = *groups_.Find(id);
    trials_.Share({id, group.lease_epoch},
                  {group.worker_id, group.incarnation, deadlines_.limit(id)});
    Grant(id, request, now_ms, room, reply, out);
    ++events_.leases_shared;
  }
}

bool Scheduler::Fits(std::uint64_t group_id, const std::string& worker_id, std::int64_t now_ms,
                     const Room& room) const {
  return room.held < MostHeldWith(group_id) && !BelongsElsewhere(group_id, worker_id, now_ms);
}

// Leases a pending group, or shares the lease of a leased one, which keeps its versions, and is no
// further attempt.
void Scheduler::Grant(std::uint64_t group_id, const WorkerExchange& request, std::int64_t now_ms,
                      Room& room, ExchangeReply& reply, LedgerChanges& out) {
  const auto index = static_cast<std::int64_t>(groups_.line().Place(group_id));
  // If no younger group passes it, the group trains in step planned + index / P + 1, which starts
  // from version planned + index / P.
  const std::int64_t start_version =
      static_cast<std::int64_t>(run_.planned_step) + index / options_.prompts;
  const std::uint64_t epoch = announced_->version.learner_epoch;
  // Only a group that fills an older plan would have to be younger than the newest version.
  const auto oldest = std::min(
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, start_version - options_.max_age)),
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
  deadlines_.Grant(group_id, request.worker_id, now_ms + options_.lease_ms,
                   now_ms + options_.lease_limit_ms);
  reply.leases.push_back(MakeLease(*groups_.Find(group_id)));
  room.most = std::min(room.most, MostHeldWith(group_id));
  ++room.held;
  --room.capacity;
}

bool Scheduler::OnTrial(const std::string& worker_id) const {
  return trials_.any_proven() && !trials_.proven(worker_id);
}

bool Scheduler::MayShare(std::uint64_t group_id) const {
  const GroupRow* const group = groups_.Find(group_id);
  return group != nullptr && group->state == GroupState::kLeased &&
         !trials_.proven(group->worker_id);
}

void Scheduler::ForgetEndedTrials() {
  while (!trials_.groups().empty() && !MayShare(*trials_.groups().begin()))
    trials_.Forget(*trials_.groups().begin());
}

void Scheduler::DoubtLate(std::int64_t now_ms) {
  const std::optional<std::int64_t> late_ms = lease_times_.late_ms();
  if (!late_ms || !trials_.AnyIdleBut("")) return;
  const std::int64_t granted_ms = now_ms - *late_ms;
  for (const std::uint64_t id : deadlines_.WithLimitBefore(granted_ms + options_.lease_limit_ms)) {
    const std::string worker_id = groups_.Find(id)->worker_id;
    if (!trials_.proven(worker_id) || !trials_.AnyIdleBut(worker_id)) continue;
    trials_.Doubt(worker_id);
    for (const std::uint64_t held : groups_.LeasedBy(worker_id)) trials_.Lease(held);
  }
}

bool Scheduler::BelongsElsewhere(std::uint64_t group_id, const std::string& worker_id,
                                 std::int64_t now_ms) const {
  const std::int64_t since_ms = now_ms - options_.lease_ms;
  if (!faults_.HasFailed(group_id, worker_id, since_ms)) return false;
  return std::ranges::any_of(workers_, [&](const auto& entry) {
    const auto& [id, worker] = entry;
    return id != worker_id && worker.last_heard_ms >= since_ms &&
           OrderOf(id) == WorkerOrder::kNone && !faults_.HasFailed(group_id, id, since_ms);
  });
}

GrantedLease Scheduler::MakeLease(const GroupRow& group) const {
  GrantedLease lease;
  lease.ref = {group.group_id, group.lease_epoch};
  lease.prompt = group.prompt;
  lease.min_version = group.min_version;
  lease.min_version.digest = DigestOf(group.min_version).value_or("");
  lease.exact_version = options_.deterministic;
  lease.ttl_ms = options_.lease_ms;
  return lease;
}

std::int64_t Scheduler::MostHeldWith(std::uint64_t group_id) const {
  const auto found = suspects_.find(group_id);
  return found == suspects_.end() ? kNoLimit : found->second;
}

}  // namespace buttress
