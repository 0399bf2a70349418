// RPC FetchGroups: the learner fetches the payloads of a plan.
#include <algorithm>
#include <string>

#include "coordinator/rpc/plan_reader.h"
#include "coordinator/rpc/service.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

// Writes chunks of at most 1 MiB, each after the one before it has left, so that a slow reader
// holds one payload in memory. Payloads are read on gRPC's threads, not by the loop. A call that
// finds damaged groups is posted again, to give them up, and ends with kAborted.
class FetchGroupsCall final : public Call<grpc::ServerWriteReactor<v1::FetchGroupsResponse>> {
 public:
  FetchGroupsCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, const PayloadStore& payloads,
                  const v1::FetchGroupsRequest& request, const Status& admitted)
      : Call(loop, metrics, "FetchGroups", {.bytes = request.SpaceUsedLong()}),
        reader_(payloads, request) {
    admitted.ok() ? Post() : FinishCall(admitted);
  }

  std::optional<Status> Apply(Turn& turn, bool) override { return reader_.Apply(turn); }

  void Answer(const Status& status) override { status.ok() ? WriteNext() : FinishCall(status); }

  void OnWriteDone(bool ok) override {
    ok ? WriteNext() : FinishCall(Cancelled("the reader has left"));
  }

 private:
  void WriteNext() {
    if (sent_ == payload_.size()) {
      auto payload = reader_.Next();
      if (!payload.ok()) return reader_.must_apply() ? Post() : FinishCall(payload.status());
      if (!*payload) return FinishCall(OkStatus());
      payload_ = **std::move(payload);
      sent_ = 0;
    }
    const std::size_t size = std::min(payload_.size() - sent_, kChunkBytes);
    chunk_.set_group_id(reader_.group_id());
    chunk_.set_data(payload_.data() + sent_, size);
    sent_ += size;
    chunk_.set_last(sent_ == payload_.size());
    StartWrite(&chunk_);
  }

  PlanReader reader_;
  v1::FetchGroupsResponse chunk_;
  std::string payload_;   // of reader_.group_id()
  std::size_t sent_ = 0;  // bytes of payload_
};

}  // namespace

grpc::ServerWriteReactor<v1::FetchGroupsResponse>* CoordinatorService::FetchGroups(
    grpc::CallbackServerContext* context, const v1::FetchGroupsRequest* request) {
  return new FetchGroupsCall(loop_, metrics_, payloads_, *request, Admit(*context));
}

}  // namespace buttress
