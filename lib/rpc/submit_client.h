// The worker's end of SubmitGroups (proto/buttress/v1/coordinator.proto).
#pragma once

#include <grpcpp/client_context.h>

#include <cstdint>
#include <memory>
#include <string>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/status.h"
#include "lib/base/sync.h"

namespace buttress {

// One open call. For one thread at a time, which it blocks.
class SubmitClient final
    : private grpc::ClientBidiReactor<v1::SubmitGroupsRequest, v1::SubmitGroupsResponse> {
 public:
  explicit SubmitClient(std::shared_ptr<v1::Coordinator::Stub> stub);
  // Ends the call.
  ~SubmitClient() override;
  SubmitClient(const SubmitClient&) = delete;
  SubmitClient& operator=(const SubmitClient&) = delete;

  // Sends one group and waits for its answer, at most `deadline_ms` (kDeadlineExceeded). After a
  // failure the call is over. REQUIRES: no failure before.
  Result<v1::SubmitResult> Submit(const v1::SubmitHeader& header, const std::string& bytes,
                                  std::int64_t deadline_ms);

 private:
  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void WritePart();
  void Tell(bool answered);
  // Waits until gRPC has let go of this object; why the call ended.
  Status Close();

  const std::shared_ptr<v1::Coordinator::Stub> stub_;
  grpc::ClientContext context_;
  v1::SubmitGroupsRequest part_;
  v1::SubmitGroupsResponse response_;
  const std::string* bytes_ = nullptr;  // of the group on its way
  std::size_t sent_ = 0;
  bool closed_ = false;
  Mutex mutex_;
  CondVar changed_;
  bool told_ GUARDED_BY(mutex_) = false;  // the group was answered, or will never be
  bool answered_ GUARDED_BY(mutex_) = false;
  bool done_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);
};

}  // namespace buttress
