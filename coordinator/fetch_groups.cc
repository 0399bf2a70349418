// RPC FetchGroups: the payloads of planned groups, in the order of the request.
#include <algorithm>
#include <string>
#include <vector>

#include "coordinator/service.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

// Writes chunks of at most 1 MiB, each after the one before it has left, so that a slow reader
// holds one payload in memory. Payloads are read on gRPC's threads, not by the loop.
class FetchGroupsCall final : public Call<grpc::ServerWriteReactor<v1::FetchGroupsResponse>> {
 public:
  FetchGroupsCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, const PayloadStore& payloads,
                  const v1::FetchGroupsRequest& request)
      : Call(loop, metrics, "FetchGroups"), payloads_(payloads), request_(request) {
    Post();
  }

  std::optional<Status> Apply(Turn& turn, bool) override {
    auto refs = turn.scheduler.Payloads(
        request_.learner_epoch(), request_.step(),
        {request_.group_ids().data(), static_cast<std::size_t>(request_.group_ids_size())});
    if (!refs.ok()) return CountFenced(turn, refs.status());
    refs_ = std::move(*refs);
    return OkStatus();
  }

  void Answer(const Status& status) override { status.ok() ? WriteNext() : FinishCall(status); }

  void OnWriteDone(bool ok) override {
    ok ? WriteNext() : FinishCall(Cancelled("the reader has left"));
  }

 private:
  void WriteNext() {
    if (sent_ == payload_.size()) {
      if (next_group_ == refs_.size()) return FinishCall(OkStatus());
      auto payload = payloads_.Read(refs_[next_group_]);
      if (!payload.ok()) return FinishCall(payload.status());
      payload_ = std::move(*payload);
      sent_ = 0;
      ++next_group_;
    }
    const std::size_t size = std::min(payload_.size() - sent_, kChunkBytes);
    chunk_.set_group_id(request_.group_ids(static_cast<int>(next_group_ - 1)));
    chunk_.set_data(payload_.data() + sent_, size);
    sent_ += size;
    chunk_.set_last(sent_ == payload_.size());
    StartWrite(&chunk_);
  }

  const PayloadStore& payloads_;
  const v1::FetchGroupsRequest& request_;
  std::vector<PayloadRef> refs_;
  v1::FetchGroupsResponse chunk_;
  std::string payload_;         // of refs_[next_group_ - 1]
  std::size_t next_group_ = 0;  // index into refs_
  std::size_t sent_ = 0;        // bytes of payload_
};

}  // namespace

grpc::ServerWriteReactor<v1::FetchGroupsResponse>* CoordinatorService::FetchGroups(
    grpc::CallbackServerContext*, const v1::FetchGroupsRequest* request) {
  return new FetchGroupsCall(loop_, metrics_, payloads_, *request);
}

}  // namespace buttress
