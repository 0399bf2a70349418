// RPC SubmitGroups: a worker submits one group.
//
// A group is a header and chunks of at most 1 MiB. gRPC's threads assemble and check it
// (OnReadDone), the loop accepts it (Apply), and the answer follows once payload and ledger are
// durable (Answer). The call has a deadline, at which gRPC ends it if the group stops arriving.
#include <fmt/core.h>

#include <chrono>

#include "coordinator/rpc/arriving_group.h"
#include "coordinator/rpc/service.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

class SubmitCall final : public Call<grpc::ServerReadReactor<v1::SubmitGroupsRequest>> {
 public:
  SubmitCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, Quota& arriving,
             const GroupLimits& limits, const grpc::CallbackServerContext& context,
             v1::SubmitGroupsResponse& response, const Status& admitted)
      : Call(loop, metrics, "SubmitGroups"),
        group_(arriving, limits, metrics),
        response_(response) {
    const auto latest = std::chrono::system_clock::now() + 2 * kGroupTime;
    if (!admitted.ok()) {
      FinishCall(admitted);
    } else if (context.deadline() <= latest) {
      StartRead(&part_);
    } else {
      FinishCall(InvalidArgument(
          fmt::format("SubmitGroups needs a deadline of at most {} s", kGroupTime.count())));
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return FinishCall(group_.LeftEarly());
    Status answer;
    switch (group_.Add(part_, answer)) {
      case ArrivingGroup::Next::kPart:
        return StartRead(&part_);
      case ArrivingGroup::Next::kApply:
        return Post();
      case ArrivingGroup::Next::kAnswer:
        return FinishCall(answer);
    }
  }

  std::optional<Status> Apply(Turn& turn, bool) override { return group_.Apply(turn, response_); }

  void Answer(const Status& status) override { FinishCall(status); }

 private:
  ArrivingGroup group_;
  v1::SubmitGroupsResponse& response_;
  v1::SubmitGroupsRequest part_;
};

}  // namespace

grpc::ServerReadReactor<v1::SubmitGroupsRequest>* CoordinatorService::SubmitGroups(
    grpc::CallbackServerContext* context, v1::SubmitGroupsResponse* response) {
  return new SubmitCall(loop_, metrics_, arriving_, limits_, *context, *response, Admit(*context));
}

}  // namespace buttress
