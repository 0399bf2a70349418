#include "coordinator/submit_stream.h"

#include <utility>

#include "coordinator/requests.h"
#include "coordinator/submission.h"
#include "lib/base/log.h"

namespace buttress {
namespace {

constexpr std::size_t kDigestBytes = 32;

Status Closing() { return Unavailable("the coordinator is closing; try again"); }

}  // namespace

void SubmitStreams::Add(SubmitStream* stream) {
  bool ended = false;
  {
    MutexLock lock(mutex_);
    open_.insert(stream);
    ended = ended_;
  }
  if (ended) stream->End();
}

void SubmitStreams::Remove(SubmitStream* stream) {
  MutexLock lock(mutex_);
  open_.erase(stream);
}

void SubmitStreams::End() {
  MutexLock lock(mutex_);
  ended_ = true;
  for (SubmitStream* stream : open_) stream->End();
}

SubmitStream::SubmitStream(CoordinatorLoop& loop, CoordinatorMetrics& metrics, SubmitBudget& budget,
                           const GroupLimits& limits, SubmitStreams& streams)
    : Call(loop, metrics, "SubmitGroups"), budget_(budget), limits_(limits), streams_(streams) {
  StartRead(&part_);
  streams_.Add(this);
}

SubmitStream::~SubmitStream() { ForgetGroup(); }

void SubmitStream::OnDone() {
  streams_.Remove(this);
  Call::OnDone();
}

void SubmitStream::End() {
  {
    MutexLock lock(mutex_);
    if (state_ == State::kBusy) state_ = State::kEnding;
    if (state_ != State::kIdle) return;
  }
  Finish(Closing());
}

bool SubmitStream::BeginPart() {
  MutexLock lock(mutex_);
  if (state_ == State::kIdle) state_ = State::kBusy;
  return state_ != State::kEnded;
}

void SubmitStream::AwaitGroup() {
  {
    MutexLock lock(mutex_);
    if (state_ == State::kBusy) {
      state_ = State::kIdle;
      StartRead(&part_);  // under the lock: none may be started after Finish
      return;
    }
  }
  Finish(Closing());
}

void SubmitStream::Finish(const Status& status) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(state_, State::kEnded) == State::kEnded) return;
  }
  Answer(status);
}

void SubmitStream::OnReadDone(bool ok) {
  if (!BeginPart()) return;
  if (!ok && !has_header_) return Finish(OkStatus());
  if (ok) {
    if (const Status taken = TakePart(); !taken.ok()) return Refuse(taken);
    if (bytes_.size() < header_.total_bytes()) {
      StartRead(&part_);
      return;
    }
  }
  auto submission = Complete();
  if (!submission.ok()) return Refuse(submission.status());
  submission_ = std::move(*submission);
  Post([this](Turn& turn, bool) { return SubmitGroup(turn, submission_, bytes_, response_); },
       [this](const Status& status) { status.ok() ? StartWrite(&response_) : Finish(status); });
}

void SubmitStream::OnWriteDone(bool ok) {
  ForgetGroup();
  ok ? AwaitGroup() : Finish(Cancelled("the worker has left"));
}

Status SubmitStream::TakePart() {
  if (part_.has_header() != !has_header_) {
    return InvalidArgument("a submission is one header, then data");
  }
  if (part_.has_header()) BUTTRESS_RETURN_IF_ERROR(TakeHeader(part_.header()));
  std::string& data = *part_.mutable_data();
  if (data.size() > header_.total_bytes() - bytes_.size()) {
    return InvalidArgument("more data than the " + std::to_string(header_.total_bytes()) +
                           " bytes of the header");
  }
  if (bytes_.empty()) {
    bytes_.swap(data);
  } else {
    bytes_ += data;
  }
  return OkStatus();
}

Status SubmitStream::TakeHeader(const v1::SubmitHeader& header) {
  if (header.content_sha256().size() != kDigestBytes) {
    return InvalidArgument("content_sha256 has not 32 bytes");
  }
  if (header.total_bytes() > kMaxGroupBytes) {
    metrics_.Submitted("too_large");
    return OutOfRange("a group of " + std::to_string(header.total_bytes()) + " bytes; at most " +
                      std::to_string(kMaxGroupBytes) + " are taken");
  }
  if (!budget_.Take(header.worker_id(), header.total_bytes())) {
    metrics_.Submitted("backpressure");
    return Unavailable("worker '" + header.worker_id() +
                       "' or all together have too many bytes on the way; try again");
  }
  header_ = header;
  has_header_ = true;
  return OkStatus();
}

Result<Submission> SubmitStream::Complete() const {
  if (bytes_.size() != header_.total_bytes()) {
    return InvalidArgument("the stream ended after " + std::to_string(bytes_.size()) + " of " +
                           std::to_string(header_.total_bytes()) + " bytes");
  }
  const LeaseRef lease{header_.lease().group_id(), header_.lease().lease_epoch()};
  return ReadSubmission(
      {header_.worker_id(), header_.incarnation(), lease, header_.content_sha256()}, bytes_,
      limits_);
}

void SubmitStream::Refuse(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) {
    metrics_.Submitted("malformed");
    Log(kWarn, "submission refused",
        {{"worker", header_.worker_id()},
         {"group", header_.lease().group_id()},
         {"error", status.message()}});
  }
  Finish(status);
}

void SubmitStream::ForgetGroup() {
  if (has_header_) budget_.GiveBack(header_.worker_id(), header_.total_bytes());
  has_header_ = false;
  bytes_.clear();
}

}  // namespace buttress
