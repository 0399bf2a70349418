// RPC SubmitGroups: the groups that one worker submits over one stream.
//
// A group is a header and chunks of at most 1 MiB; it is answered before the next one is read.
// gRPC's threads assemble, hash, parse and check the group (OnReadDone), the loop accepts it
// (Apply), and the answer follows once payload and ledger are durable (Answer). A group that is
// refused is counted and ends the stream and its lease, whatever the worker says of it afterwards:
// three of them set the worker aside (worker_faults.h).
//
// A group of several chunks goes to the loop after its first chunk as well. Without a lease it gets
// no memory, and the answer says what became of the lease: at once, and as the stream's last, if
// much of the group is still to come; otherwise its other chunks are thrown away.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "coordinator/as_leased.h"
#include "coordinator/service.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/digest.h"
#include "lib/base/log.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

constexpr std::size_t kDigestBytes = 32;
// A group may take so long, and beyond it a time that its bytes explain. Bytes that came fast buy
// no more than the longest pause, so that a group cannot nearly arrive and then stop.
constexpr std::int64_t kStallMs = 10000;
constexpr std::int64_t kLongestPauseMs = 30000;
constexpr std::size_t kSlowestBytesPerMs = 64;
// More than a completion has, and more than a token adds to it with a segment of its own.
constexpr std::uint64_t kCompletionBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kTokenBytes = 256;

Status Closing() { return Unavailable("the coordinator is closing; try again"); }

// NaN without a scorable completion.
double MeanRawReward(const AcceptedRow& accepted) {
  double sum = 0;
  double scorable = 0;
  for (const CompletionRow& completion : accepted.completions) {
    if (completion.outcome == Outcome::kUnscorable) continue;
    sum += completion.raw_reward;
    ++scorable;
  }
  return sum / scorable;
}

// Tells of the orders that the turn has given since there were `first`.
void LogOrders(const Turn& turn, std::size_t first) {
  for (std::size_t i = first; i < turn.changes.orders.size(); ++i) {
    const WorkerOrderRow& order = turn.changes.orders[i];
    Log(kWarn, "a worker is set aside", {{"worker", order.worker_id}, {"reason", order.reason}});
  }
}

// Of a submission without its content: nothing that follows would be accepted.
bool HasNoLease(SubmitOutcome outcome) {
  return outcome == SubmitOutcome::kStaleFence || outcome == SubmitOutcome::kDuplicate ||
         outcome == SubmitOutcome::kConflict;
}

v1::SubmitResult ResultOf(SubmitOutcome outcome) {
  switch (outcome) {
    case SubmitOutcome::kAccepted:
      return v1::SUBMIT_RESULT_ACCEPTED;
    case SubmitOutcome::kDuplicate:
      return v1::SUBMIT_RESULT_DUPLICATE;
    case SubmitOutcome::kStaleFence:
      return v1::SUBMIT_RESULT_STALE_FENCE;
    case SubmitOutcome::kStalePolicy:
      return v1::SUBMIT_RESULT_STALE_POLICY;
    case SubmitOutcome::kConflict:
    case SubmitOutcome::kMismatch:
      break;
  }
  return v1::SUBMIT_RESULT_UNSPECIFIED;
}

}  // namespace

class SubmitStream final
    : public Call<grpc::ServerBidiReactor<v1::SubmitGroupsRequest, v1::SubmitGroupsResponse>> {
 public:
  SubmitStream(CoordinatorLoop& loop, CoordinatorMetrics& metrics, SubmitBudget& budget,
               const GroupLimits& limits, SubmitStreams& streams)
      : Call(loop, metrics, "SubmitGroups"), limits_(limits), streams_(streams), group_(budget) {
    StartRead(&part_);
    streams_.Add(this);
  }

  void OnReadDone(bool ok) override;
  std::optional<Status> Apply(Turn& turn, bool last) override;

  bool is_submission() const override { return true; }

  void Answer(const Status& status) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

  // Ends the stream now if it is idle, else after the answer to its group. Thread-safe.
  void End();

  // Ends the stream if its group arrives too slowly. Thread-safe.
  void EndIfStalled(std::int64_t now_ms);

 private:
  // kIdle waits for a group, kReading for more of one.
  enum class State { kIdle, kReading, kBusy, kEnding, kEnded };

  bool BeginPart();
  void ReadMore();

  bool whole() const { return arrived_ == header_.total_bytes(); }

  Status AddPart();
  Status BeginGroup(v1::SubmitHeader& header);
  Status ParseGroup();
  void Reject(const Status& status);
  void EndRefusedLease(Turn& turn);
  void ReleaseGroup();
  void ReadNextGroup();
  void FinishOnce(const Status& status);

  const GroupLimits& limits_;
  SubmitStreams& streams_;
  v1::SubmitGroupsRequest part_;
  v1::SubmitGroupsResponse response_;
  v1::SubmitHeader header_;
  bool has_header_ = false;
  bool lease_checked_ = false;
  bool without_lease_ = false;
  bool answered_early_ = false;  // the rest of the group is not read
  std::uint64_t arrived_ = 0;    // bytes of the group
  std::size_t part_bytes_ = 0;   // of its last part
  GroupBuffer group_;            // those bytes, unless it has no lease
  Submission submission_;
  SampledAs sampled_;
  Status refusal_;  // of a group that the loop does not accept whatever its lease is
  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kIdle;
  std::int64_t stalled_ms_ GUARDED_BY(mutex_) = 0;  // when more of the group must have come
};

grpc::ServerBidiReactor<v1::SubmitGroupsRequest, v1::SubmitGroupsResponse>*
CoordinatorService::SubmitGroups(grpc::CallbackServerContext*) {
  return new SubmitStream(loop_, metrics_, budget_, limits_, streams_);
}

// Adds the part to the group, and posts the group to the loop once it is complete.
void SubmitStream::OnReadDone(bool ok) {
  if (!BeginPart()) return;
  if (!ok && !has_header_) return FinishOnce(OkStatus());
  if (!ok) {  // a worker that has left in the middle may submit the group again
    return FinishOnce(InvalidArgument(
        fmt::format("the stream ended after {} of {} bytes", arrived_, header_.total_bytes())));
  }
  if (const Status added = AddPart(); !added.ok()) return Reject(added);
  if (!whole()) return lease_checked_ ? ReadMore() : Post();
  if (const Status parsed = ParseGroup(); !parsed.ok()) return Reject(parsed);
  Post();
}

// Appends the payload of a group that will be accepted, and submits it to the scheduler.
std::optional<Status> SubmitStream::Apply(Turn& turn, bool) {
  if (Status known = CheckWorkerRun(turn, header_.run_id()); !known.ok()) return known;
  if (!refusal_.ok()) {
    EndRefusedLease(turn);
    return refusal_;
  }
  if (!whole()) {
    without_lease_ = HasNoLease(turn.scheduler.Check(submission_));
    answered_early_ = without_lease_ && header_.total_bytes() - arrived_ > kChunkBytes;
    if (!answered_early_) return OkStatus();
  }
  if (turn.scheduler.Check(submission_) == SubmitOutcome::kAccepted) {
    const GroupRow& group = *turn.scheduler.groups().Find(submission_.lease.group_id);
    if (Status same = CheckAsLeased(turn, group, sampled_); !same.ok()) {
      metrics_.Submitted(SubmitOutcomeName(SubmitOutcome::kMismatch));
      EndRefusedLease(turn);
      return same;
    }
    auto payload =
        turn.payloads.Append(submission_.lease, group_.bytes(), submission_.content_sha256);
    if (!payload.ok()) {
      const bool full = payload.status().code() == StatusCode::kResourceExhausted;
      (full ? turn.full : turn.failed) = payload.status();
      metrics_.Submitted("backpressure");
      return Unavailable("the payload cannot be stored: " + payload.status().message());
    }
    submission_.accepted.payload = *payload;
    turn.payloads_appended = true;
    metrics_.submission_bytes.Increment(static_cast<double>(group_.bytes().size()));
    if (const double mean = MeanRawReward(submission_.accepted); !std::isnan(mean))
      metrics_.group_reward_mean.Observe(mean);
  }
  const LeaseRef lease = submission_.lease;
  const std::size_t orders = turn.changes.orders.size();
  const SubmitOutcome outcome = turn.scheduler.Submit(std::move(submission_), turn.changes);
  LogOrders(turn, orders);
  metrics_.Submitted(SubmitOutcomeName(outcome));
  response_.set_result(ResultOf(outcome));
  if (outcome == SubmitOutcome::kConflict) {
    return AlreadyExists(
        fmt::format("group {} under lease epoch {} was accepted with other content", lease.group_id,
                    lease.lease_epoch));
  }
  if (outcome == SubmitOutcome::kMismatch) {
    EndRefusedLease(turn);
    return InvalidArgument(
        fmt::format("group {} under lease epoch {} is not what was leased: "
                    "another prompt, too many "
                    "completions, or a version that was never announced",
                    lease.group_id, lease.lease_epoch));
  }
  return OkStatus();
}

void SubmitStream::EndRefusedLease(Turn& turn) {
  const std::size_t orders = turn.changes.orders.size();
  turn.scheduler.Refuse(header_.worker_id(), header_.incarnation(), FromProto(header_.lease()),
                        turn.now_ms, turn.changes);
  LogOrders(turn, orders);
}

void SubmitStream::Answer(const Status& status) {
  if (!status.ok()) return FinishOnce(status);
  if (whole() || answered_early_) return StartWrite(&response_);
  lease_checked_ = true;
  if (without_lease_) group_.Clear();
  ReadMore();
}

void SubmitStream::OnWriteDone(bool ok) {
  ReleaseGroup();
  if (!ok) return FinishOnce(Cancelled("the worker has left"));
  answered_early_ ? FinishOnce(OkStatus()) : ReadNextGroup();
}

void SubmitStream::OnDone() {
  streams_.Remove(this);
  Call::OnDone();
}

Status SubmitStream::AddPart() {
  if (part_.has_header() == has_header_)
    return InvalidArgument("a submission is one header, then data");
  if (part_.has_header()) BUTTRESS_RETURN_IF_ERROR(BeginGroup(*part_.mutable_header()));
  std::string& data = *part_.mutable_data();
  if (data.size() > header_.total_bytes() - arrived_) {
    return InvalidArgument(
        fmt::format("more data than the {} bytes of the header", header_.total_bytes()));
  }
  part_bytes_ = data.size();
  arrived_ += part_bytes_;
  if (without_lease_) return OkStatus();
  // Announced bytes take no memory and count for nothing; streams that have stopped in the middle
  // of a group give theirs back when they are needed.
  if (group_.Append(header_.worker_id(), data, header_.total_bytes())) return OkStatus();
  streams_.EndStalled(RealClock().MonotonicMs());
  metrics_.Submitted("backpressure");
  return Unavailable(
      fmt::format("worker '{}', or all workers together, have "
                  "too many bytes in submission; try again",
                  header_.worker_id()));
}

Status SubmitStream::BeginGroup(v1::SubmitHeader& header) {
  header_ = std::move(header);
  has_header_ = true;
  if (header_.content_sha256().size() != kDigestBytes) {
    return InvalidArgument(fmt::format("content_sha256 has {} bytes; expected {}",
                                       header_.content_sha256().size(), kDigestBytes));
  }
  if (const std::uint64_t most = MaxGroupBytes(limits_); header_.total_bytes() > most) {
    metrics_.Submitted("too_large");
    return OutOfRange(fmt::format("group has {} bytes; no group of this run has more than {}",
                                  header_.total_bytes(), most));
  }
  submission_ = {};
  submission_.worker_id = header_.worker_id();
  submission_.incarnation = header_.incarnation();
  submission_.lease = FromProto(header_.lease());
  submission_.content_sha256 = header_.content_sha256();
  return OkStatus();
}

Status SubmitStream::ParseGroup() {
  if (without_lease_) return OkStatus();
  const std::string& bytes = group_.bytes();
  if (Sha256Of(bytes) != header_.content_sha256())
    return InvalidArgument("the bytes do not have the SHA-256 of the header");
  BUTTRESS_ASSIGN_OR_RETURN(Group group, DecodeGroup(bytes, limits_));
  if (group.group_id != header_.lease().group_id() || group.worker_id != header_.worker_id()) {
    return InvalidArgument(fmt::format(
        "header names group {} of worker '{}', content is group {} of '{}'",
        header_.lease().group_id(), header_.worker_id(), group.group_id, group.worker_id));
  }
  submission_.accepted = SummarizeGroup(group);
  sampled_ = SampledAsOf(group);
  submission_.prompt_id = std::move(group.prompt_id);
  return OkStatus();
}

// The loop ends the lease, unless the group may come again or has no header to name one.
void SubmitStream::Reject(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) {
    metrics_.Submitted("malformed");
    Log(kWarn, "submission refused",
        {{"worker", header_.worker_id()},
         {"group", header_.lease().group_id()},
         {"error", status.message()}});
  }
  if (!has_header_ || status.code() == StatusCode::kUnavailable) return FinishOnce(status);
  refusal_ = status;
  Post();
}

void SubmitStream::ReleaseGroup() {
  has_header_ = false;
  lease_checked_ = false;
  without_lease_ = false;
  arrived_ = 0;
  group_.Clear();
}

// Returns false if the stream has ended.
bool SubmitStream::BeginPart() {
  MutexLock lock(mutex_);
  if (state_ == State::kIdle) stalled_ms_ = RealClock().MonotonicMs() + kStallMs;
  if (state_ == State::kIdle || state_ == State::kReading) state_ = State::kBusy;
  return state_ != State::kEnded;
}

void SubmitStream::ReadMore() {
  const auto part_ms = static_cast<std::int64_t>(part_bytes_ / kSlowestBytesPerMs);
  MutexLock lock(mutex_);
  if (state_ == State::kBusy) {
    state_ = State::kReading;
    stalled_ms_ = std::min(stalled_ms_ + part_ms, RealClock().MonotonicMs() + kLongestPauseMs);
  }
  StartRead(&part_);  // under the lock, as in ReadNextGroup
}

void SubmitStream::EndIfStalled(std::int64_t now_ms) {
  {
    MutexLock lock(mutex_);
    if (state_ != State::kReading || now_ms <= stalled_ms_) return;
    state_ = State::kEnded;
  }
  FinishCall(DeadlineExceeded("the group did not arrive in time; submit it again"));
}

void SubmitStream::ReadNextGroup() {
  {
    MutexLock lock(mutex_);
    if (state_ == State::kBusy) {
      state_ = State::kIdle;
      return StartRead(&part_);  // under the lock: no read may start after the end
    }
  }
  FinishOnce(Closing());
}

void SubmitStream::End() {
  {
    MutexLock lock(mutex_);
    if (state_ == State::kBusy || state_ == State::kReading) state_ = State::kEnding;
    if (state_ != State::kIdle) return;
    state_ = State::kEnded;  // under the lock: a part that arrives now finds the end
  }
  FinishCall(Closing());
}

void SubmitStream::FinishOnce(const Status& status) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(state_, State::kEnded) == State::kEnded) return;
  }
  FinishCall(status);
}

std::uint64_t MaxGroupBytes(const GroupLimits& limits) {
  const auto tokens = static_cast<std::uint64_t>(limits.max_completion_tokens);
  const auto completions = static_cast<std::uint64_t>(limits.max_completions);
  const auto prompt = kTokenBytes * static_cast<std::uint64_t>(limits.max_prompt_tokens);
  return std::min(kMaxGroupBytes, prompt + completions * (kCompletionBytes + kTokenBytes * tokens));
}

bool SubmitBudget::Reserve(const std::string& worker_id, std::uint64_t bytes) {
  MutexLock lock(mutex_);
  std::uint64_t& held = by_worker_[worker_id];
  const bool fits = bytes <= kTotalBytes - total_ && bytes <= kWorkerBytes - held;
  if (fits) {
    total_ += bytes;
    held += bytes;
  } else if (held == 0) {
    by_worker_.erase(worker_id);
  }
  return fits;
}

void SubmitBudget::Release(const std::string& worker_id, std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto held = by_worker_.find(worker_id);
  BUTTRESS_CHECK(held != by_worker_.end() && held->second >= bytes && total_ >= bytes,
                 "no more bytes are released than were reserved");
  total_ -= bytes;
  held->second -= bytes;
  if (held->second == 0) by_worker_.erase(held);
}

bool GroupBuffer::Append(const std::string& worker_id, std::string& part,
                         std::uint64_t total_bytes) {
  const std::size_t needed = bytes_.size() + part.size();
  const bool grows = needed > bytes_.capacity();
  const std::size_t capacity =
      grows ? std::min<std::size_t>(total_bytes, std::max(needed, 2 * bytes_.size())) : 0;
  if (capacity > reserved_) {
    if (!budget_.Reserve(worker_id, capacity - reserved_)) return false;
    reserved_ = capacity;
    worker_id_ = worker_id;
  }
  if (grows) {
    std::string grown;
    grown.reserve(capacity);
    grown += bytes_;
    bytes_.swap(grown);
  }
  bytes_ += part;
  std::string().swap(part);
  return true;
}

void GroupBuffer::Clear() {
  if (reserved_ > 0) budget_.Release(worker_id_, std::exchange(reserved_, 0));
  std::string().swap(bytes_);
}

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

void SubmitStreams::EndStalled(std::int64_t now_ms) {
  MutexLock lock(mutex_);
  for (SubmitStream* stream : open_) stream->EndIfStalled(now_ms);
}

void SubmitStreams::End() {
  MutexLock lock(mutex_);
  ended_ = true;
  for (SubmitStream* stream : open_) stream->End();
}

}  // namespace buttress
