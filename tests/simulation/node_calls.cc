#include "tests/simulation/node_calls.h"

#include <algorithm>

#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"

namespace buttress::simulation {

std::set<std::uint64_t> ReturnedGroups(const Turn& turn, const v1::ExchangeRequest& request) {
  std::set<std::uint64_t> groups;
  for (const v1::ReturnedLease& returned : request.returned()) {
    const LeaseRef ref = FromProto(returned.ref());
    if (turn.scheduler.leases().Find(ref, request.worker_id(), request.incarnation()) != nullptr)
      groups.insert(ref.group_id);
  }
  return groups;
}

void CheckReturns(CoordinatorNode& node, const Turn& turn, const std::set<std::uint64_t>& returned,
                  const v1::ExchangeRequest& request, const v1::ExchangeResponse& response) {
  const Scheduler& scheduler = turn.scheduler;
  const std::int64_t since_ms = turn.now_ms - node.setup().options.lease_ms;
  for (const v1::Lease& lease : response.leases()) {
    const std::uint64_t id = lease.ref().group_id();
    if (!returned.contains(id)) continue;
    node.world().Count("a group was leased again by who gave it back");
    const bool other = scheduler.workers().AnyOther(
        request.worker_id(), turn.now_ms, [&](const std::string& worker) {
          return !scheduler.leases().HasFailed(id, worker, since_ms);
        });
    node.world().Expect(!other, "a group that a worker gives back goes to another one first");
  }
}

void ForgiveReturns(Turn& turn, v1::ExchangeRequest request) {
  request.set_capacity(0);
  for (v1::ReturnedLease& returned : *request.mutable_returned())
    returned.set_reason(v1::RETURN_REASON_DRAINING);
  v1::ExchangeResponse ignored;
  Apply(turn, request, ignored, true);
}

std::optional<Status> SubmitNodeCall::Apply(Turn& turn, bool) {
  if (next_ != ArrivingGroup::Next::kApply) return answer_;
  const LeaseRef lease = FromProto(header_.lease());
  const bool held =
      turn.scheduler.leases().Find(lease, header_.worker_id(), header_.incarnation()) != nullptr;
  if (!held && !parts_.empty()) PassFence(turn);
  const Status status = group_->Apply(turn, response_);
  const bool accepted = status.ok() && response_.result() == v1::SUBMIT_RESULT_ACCEPTED;
  node_.world().Expect(held || !accepted, "(I4) a group is accepted without its lease");
  if (Planted(Plant::kStaleSubmissionDrops) && response_.result() == v1::SUBMIT_RESULT_STALE_POLICY)
    DropGroup(turn);
  if (Planted(Plant::kDuplicateUnknown) && response_.result() == v1::SUBMIT_RESULT_DUPLICATE)
    response_.set_result(v1::SUBMIT_RESULT_STALE_FENCE);
  return status;
}

void SubmitNodeCall::PassFence(Turn& turn) {
  const std::vector<HeldLease> leases = turn.scheduler.leases().OfGroup(header_.lease().group_id());
  if (leases.empty()) return;
  std::vector<v1::SubmitGroupsRequest> parts = parts_;
  v1::SubmitHeader& header = *parts.front().mutable_header();
  header.mutable_lease()->set_lease_epoch(leases.front().ref.lease_epoch);
  header.set_worker_id(leases.front().worker_id);
  header.set_incarnation(leases.front().incarnation);
  Arrive(parts);
}

void SubmitNodeCall::DropGroup(Turn& turn) const {
  const std::uint64_t id = header_.lease().group_id();
  const GroupRow* const group = turn.scheduler.groups().Find(id);
  if (group == nullptr || group->state != GroupState::kPending) return;
  GroupRow dropped = *group;
  dropped.state = GroupState::kDropped;
  dropped.reason = DropReason::kStale;
  turn.changes.groups.push_back(std::move(dropped));
}

void FetchNodeCall::Reply(const Status& status, std::unique_ptr<NodeCall> self) {
  if (!status.ok()) return reply_(status);
  while (true) {
    auto payload = reader_.Next();
    if (!payload.ok() && reader_.must_apply()) return node_.Receive(std::move(self));
    if (!payload.ok()) return reply_(payload.status());
    if (!*payload) return reply_(std::move(parts_));
    if (first_payload_.empty()) first_payload_ = **payload;
    if (Planted(Plant::kPayloadStale)) **payload = first_payload_;
    node_.checker().Fetched(reader_.group_id(), **payload);
    AddParts(**payload);
  }
}

void FetchNodeCall::AddParts(const std::string& payload) {
  constexpr std::size_t kChunk = 128;
  for (std::size_t sent = 0; sent < payload.size(); sent += kChunk) {
    v1::FetchGroupsResponse& part = parts_.emplace_back();
    part.set_group_id(reader_.group_id());
    part.set_data(payload.substr(sent, kChunk));
    part.set_last(sent + kChunk >= payload.size());
  }
}

}  // namespace buttress::simulation
