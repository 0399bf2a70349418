#include "coordinator/fetch_call.h"

#include <algorithm>

#include "coordinator/requests.h"
#include "lib/rpc/channel.h"

namespace buttress {

FetchCall::FetchCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics,
                     const PayloadStore& payloads, const v1::FetchGroupsRequest& request)
    : Call(loop, metrics, "FetchGroups"), payloads_(payloads), request_(request) {
  Post([this](Turn& turn, bool) { return FetchGroups(turn, request_, refs_); },
       [this](const Status& status) { status.ok() ? WriteNext() : Answer(status); });
}

void FetchCall::OnWriteDone(bool ok) {
  ok ? WriteNext() : Answer(Cancelled("the reader has left"));
}

void FetchCall::WriteNext() {
  if (sent_ == payload_.size()) {
    if (next_group_ == refs_.size()) return Answer(OkStatus());
    auto payload = payloads_.Read(refs_[next_group_]);
    if (!payload.ok()) return Answer(payload.status());
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

}  // namespace buttress
