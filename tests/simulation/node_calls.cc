#include "tests/simulation/node_calls.h"

#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"

namespace buttress::simulation {

std::optional<Status> SubmitNodeCall::Apply(Turn& turn, bool) {
  if (next_ != ArrivingGroup::Next::kApply) return answer_;
  const LeaseRef lease = FromProto(header_.lease());
  const bool held =
      turn.scheduler.leases().Find(lease, header_.worker_id(), header_.incarnation()) != nullptr;
  const Status status = group_.Apply(turn, response_);
  const bool accepted = status.ok() && response_.result() == v1::SUBMIT_RESULT_ACCEPTED;
  node_.world().Expect(held || !accepted, "(I4) a group is accepted without its lease");
  if (Planted(Plant::kDuplicateUnknown) && response_.result() == v1::SUBMIT_RESULT_DUPLICATE)
    response_.set_result(v1::SUBMIT_RESULT_STALE_FENCE);
  return status;
}

void FetchNodeCall::Reply(const Status& status, std::unique_ptr<NodeCall> self) {
  if (!status.ok()) return reply_(status);
  while (true) {
    const auto payload = reader_.Next();
    if (!payload.ok() && reader_.must_apply()) return node_.Receive(std::move(self));
    if (!payload.ok()) return reply_(payload.status());
    if (!*payload) return reply_(std::move(payloads_));
    node_.checker().Fetched(reader_.group_id(), **payload);
    payloads_.push_back(**payload);
  }
}

}  // namespace buttress::simulation
