// FetchGroups: payloads of a plan, in the order asked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "coordinator/call.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// Chunks of 1 MiB, each written when the one before it has left, so that a slow reader holds one
// group in memory. Reading is from files that were just written, and is done on gRPC's thread.
class FetchCall final : public Call<grpc::ServerWriteReactor<v1::FetchGroupsResponse>> {
 public:
  FetchCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, const PayloadStore& payloads,
            const v1::FetchGroupsRequest& request);

  void OnWriteDone(bool ok) override;

 private:
  // Writes the next chunk, or answers when there is none.
  void WriteNext();

  const PayloadStore& payloads_;
  const v1::FetchGroupsRequest& request_;
  std::vector<PayloadRef> refs_;
  v1::FetchGroupsResponse chunk_;
  std::string payload_;
  std::size_t next_group_ = 0;  // the one after payload_
  std::size_t sent_ = 0;        // bytes of payload_
};

}  // namespace buttress
