#include "lib/rpc/submit_client.h"

#include <algorithm>
#include <chrono>

#include "lib/rpc/channel.h"
#include "lib/rpc/grpc_status.h"

namespace buttress {
namespace {

// gRPC lets go of a cancelled call as soon as its threads run.
constexpr std::chrono::hours kUntilDone(1);

}  // namespace

SubmitClient::SubmitClient(std::shared_ptr<v1::Coordinator::Stub> stub) : stub_(std::move(stub)) {
  context_.set_initial_metadata_corked(true);  // goes out with the first message
  stub_->async()->SubmitGroups(&context_, this);
  AddHold();  // operations are started from outside of gRPC's threads
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
    told_ = false;
  }
  WritePart();
  bool answered = false;
  {
    MutexLock lock(mutex_);
    const bool in_time =
        changed_.WaitFor(mutex_, std::chrono::milliseconds(deadline_ms), [this] { return told_; });
    answered = in_time && answered_;
    if (!in_time)
      status_ = DeadlineExceeded("no answer for " + std::to_string(deadline_ms) + " ms");
  }
  if (answered) return response_.result();
  const Status ended = Close();
  return ended.ok() ? Unavailable("the coordinator ended the call") : ended;
}

void SubmitClient::WritePart() {
  part_.set_data(bytes_->substr(sent_, kChunkBytes));
  sent_ += part_.data().size();
  StartWrite(&part_);
}

void SubmitClient::OnWriteDone(bool ok) {
  part_.clear_header();
  if (!ok) return Tell(false);
  sent_ < bytes_->size() ? WritePart() : StartRead(&response_);
}

void SubmitClient::OnReadDone(bool ok) { Tell(ok); }

void SubmitClient::Tell(bool answered) {
  MutexLock lock(mutex_);
  told_ = true;
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
    over = told_ && !answered_;  // the reason is on its way
  }
  if (!over) context_.TryCancel();
  RemoveHold();
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, kUntilDone, [this] { return done_; });
  return status_;
}

}  // namespace buttress
