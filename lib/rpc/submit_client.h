// The worker's side of the stream SubmitGroups of proto/buttress/v1/coordinator.proto.
#pragma once

#include <grpcpp/client_context.h>

#include <cstdint>
#include <memory>
#include <string>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/status.h"
#include "lib/base/sync.h"

namespace buttress {

// One open stream. Not thread-safe; every function blocks the calling thread.
class SubmitClient final
    : private grpc::ClientBidiReactor<v1::SubmitGroupsRequest, v1::SubmitGroupsResponse> {
 public:
  explicit SubmitClient(std::shared_ptr<v1::Coordinator::Stub> stub);
  // Ends the stream.
  ~SubmitClient() override;
  SubmitClient(const SubmitClient&) = delete;
  SubmitClient& operator=(const SubmitClient&) = delete;

  // Sends one group and waits up to `deadline_ms` for its answer, then returns kDeadlineExceeded.
  // A failure ends the stream, and so may an answer. REQUIRES: open().
  Result<v1::SubmitResult> Submit(const v1::SubmitHeader& header, const std::string& bytes,
                                  std::int64_t deadline_ms);

  // Returns false if the coordinator ended the stream before it had all of a group.
  bool open() const { return !ended_; }

 private:
  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void WritePart();
  void Settle(bool answered);
  // Waits until gRPC no longer uses this object; returns why the stream ended.
  Status Close();

  const std::shared_ptr<v1::Coordinator::Stub> stub_;
  grpc::ClientContext context_;
  v1::SubmitGroupsRequest part_;
  v1::SubmitGroupsResponse response_;
  const std::string* bytes_ = nullptr;  // of the group that is being sent
  std::size_t sent_ = 0;
  bool ended_ = false;
  bool closed_ = false;
  Mutex mutex_;
  CondVar changed_;
  bool settled_ GUARDED_BY(mutex_) = false;  // the group is answered, or never will be
  bool answered_ GUARDED_BY(mutex_) = false;
  bool done_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);
};

}  // namespace buttress
