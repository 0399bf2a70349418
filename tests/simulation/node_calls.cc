#include "tests/simulation/node_calls.h"

#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"

namespace buttress::simulation {

std::optional<Status> SubmitNodeCall::Apply(Turn& turn, bool) {
  if (next_ != ArrivingGroup::Next::kApply) return answer_;
  const LeaseRef lease = FromProto(header_.lease());
  const bool held =
      turn.scheduler.leases().Find(lease, header_.worker_id(), header_.incarnation()) != nullptr;
  if (!held && !parts_.empty()) PassFence(turn);
  const Status status = group_->Apply(turn, response_);
  const bool accepted = status.ok() && response_.result() == v1::SUBMIT_RESULT_ACCEPTED;
  node_.world().Expect(held || !accepted, "(I4) a group is accepted without its lease");
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

void FetchNodeCall::Reply(const Status& status, std::unique_ptr<NodeCall> self) {
  if (!status.ok()) return reply_(status);
  while (true) {
    auto payload = reader_.Next();
    if (!payload.ok() && reader_.must_apply()) return node_.Receive(std::move(self));
    if (!payload.ok()) return reply_(payload.status());
    if (!*payload) return reply_(std::move(payloads_));
    if (Planted(Plant::kPayloadStale) && !payloads_.empty()) **payload = payloads_.front();
    node_.checker().Fetched(reader_.group_id(), **payload);
    payloads_.push_back(**payload);
  }
}

}  // namespace buttress::simulation
