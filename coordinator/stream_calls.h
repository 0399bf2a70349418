// The two streaming calls: a group coming in, in chunks, and groups going out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/call.h"
#include "coordinator/service.h"

namespace buttress {

// SubmitGroup: header, then chunks of at most 1 MiB. Size, hash and content are checked here, beside the loop; every group that is
// refused is counted.
class SubmitCall final : public Call<grpc::ServerReadReactor<v1::SubmitGroupRequest>> {
 public:
  SubmitCall(CoordinatorLoop& loop,
             CoordinatorMetrics& metrics,
             SubmitBudget& budget,
             const GroupLimits& limits,
             v1::SubmitGroupResponse& response);
  ~SubmitCall() override;

  void OnReadDone(bool ok) override;

 private:
  Status TakePart();
  Status TakeHeader(const v1::SubmitHeader& header);
  Result<Submission> Complete() const;
  void Refuse(const Status& status);

  SubmitBudget& budget_;
  const GroupLimits& limits_;
  v1::SubmitGroupResponse& response_;
  v1::SubmitGroupRequest part_;
  v1::SubmitHeader header_;
  bool has_header_ = false;  // and header_.total_bytes() are taken from the budget
  std::string bytes_;
};

// FetchGroups: payloads in the order asked, in chunks of 1 MiB, each written when the one before it has left, so that a slow reader
// holds one group in memory. Reading is from files that were just written, and is done on gRPC's thread.
class FetchCall final : public Call<grpc::ServerWriteReactor<v1::FetchGroupsResponse>> {
 public:
  FetchCall(CoordinatorLoop& loop,
            CoordinatorMetrics& metrics,
            const PayloadStore& payloads,
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
