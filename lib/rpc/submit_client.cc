#include "lib/rpc/submit_client.h"

#include <algorithm>
#include <chrono>

#include "lib/rpc/channel.h"
#include "lib/rpc/grpc_status.h"

namespace buttress {
namespace {

// gRPC releases a cancelled stream as soon as its threads run.
constexpr std::chrono::hours kUntilDone(1);

}  // namespace

SubmitClient::SubmitClient(std::shared_ptr<v1::Coordinator::Stub> stub) : stub_(std::move(stub)) {
  context_.set_initial_metadata_corked(true);  // gRPC sends it with the first message
  stub_->async()->SubmitGroups(&context_, this);
  AddHold();  // Submit starts operations outside of gRPC's callbacks
  StartCall();
}

SubmitClient::~SubmitClient() {
  if (!closed_) Close().IgnoreError();
}

Result<v1::SubmitResult> SubmitClient::Submit(const v1::SubmitHeader& header,
                                              const std::string& bytes, std::int64_t deadline_ms) {
  *part_.mutable_header() = header;
  bytes_ = &bytes;
  sent_ = 0;
  {
    MutexLock lock(mutex_);
    settled_ = false;
  }
  WritePart();
  bool answered = false;
  {
    MutexLock lock(mutex_);
    const bool in_time = changed_.WaitFor(mutex_, std::chrono::milliseconds(deadline_ms),
                                          [this]() REQUIRES(mutex_) { return settled_; });
    answered = in_time && answered_;
    if (!in_time)
      status_ = DeadlineExceeded("no answer for " + std::to_string(deadline_ms) + " ms");
  }
  if (answered) return response_.result();
  const Status ended = Close();
  return ended.ok() ? Unavailable("the coordinator ended the stream") : ended;
}

void SubmitClient::WritePart() {
  part_.set_data(bytes_->substr(sent_, kChunkBytes));
  sent_ += part_.data().size();
  StartWrite(&part_);
}

void SubmitClient::OnWriteDone(bool ok) {
  part_.clear_header();
  ended_ = !ok;  // perhaps after an early answer
  ok&& sent_ < bytes_->size() ? WritePart() : StartRead(&response_);
}

void SubmitClient::OnReadDone(bool ok) { Settle(ok); }

void SubmitClient::Settle(bool answered) {
  MutexLock lock(mutex_);
  settled_ = true;
  answered_ = answered;
  changed_.NotifyAll();
}

void SubmitClient::OnDone(const grpc::Status& status) {
  MutexLock lock(mutex_);
  done_ = true;
  if (status_.ok()) status_ = FromGrpc(status);
  changed_.NotifyAll();
}

Status SubmitClient::Close() {
  closed_ = true;
  bool over = false;
  {
    MutexLock lock(mutex_);
    over = settled_ && !answered_;  // gRPC will report the reason
  }
  if (!over) context_.TryCancel();
  RemoveHold();
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, kUntilDone, [this]() REQUIRES(mutex_) { return done_; });
  return status_;
}

}  // namespace buttress
