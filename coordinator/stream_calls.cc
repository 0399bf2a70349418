#include "coordinator/stream_calls.h"

#include <algorithm>

#include "coordinator/requests.h"
#include "lib/base/digest.h"
#include "lib/base/log.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

constexpr std::size_t kDigestBytes = 32;

}  // namespace

SubmitCall::SubmitCall(CoordinatorLoop& loop,
                       CoordinatorMetrics& metrics,
                       SubmitBudget& budget,
                       const GroupLimits& limits,
                       v1::SubmitGroupResponse& response)
    : Call(loop, metrics, "SubmitGroup"), budget_(budget), limits_(limits), response_(response) {
  StartRead(&part_);
}

SubmitCall::~SubmitCall() {
  if (has_header_) budget_.GiveBack(header_.worker_id(), header_.total_bytes());
}

void SubmitCall::OnReadDone(bool ok) {
  if (ok) {
    if (const Status taken = TakePart(); !taken.ok()) return Refuse(taken);
    if (bytes_.size() < header_.total_bytes()) {
      StartRead(&part_);
      return;
    }
  }
  auto submission = Complete();
  if (!submission.ok()) return Refuse(submission.status());
  Post([this, submission = std::move(*submission)](
           Turn& turn, bool) mutable { return SubmitGroup(turn, submission, bytes_, response_); },
       [this](const Status& status) { Answer(status); });
}

Status SubmitCall::TakePart() {
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

Status SubmitCall::TakeHeader(const v1::SubmitHeader& header) {
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

Result<Submission> SubmitCall::Complete() const {
  if (!has_header_) return InvalidArgument("a submission without a header");
  if (bytes_.size() != header_.total_bytes()) {
    return InvalidArgument("the stream ended after " + std::to_string(bytes_.size()) + " of " +
                           std::to_string(header_.total_bytes()) + " bytes");
  }
  if (Sha256Of(bytes_) != header_.content_sha256()) {
    return InvalidArgument("the bytes do not have the SHA-256 of the header");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const Group group, DecodeGroup(bytes_, limits_));
  if (group.group_id != header_.lease().group_id() || group.worker_id != header_.worker_id()) {
    return InvalidArgument("the header says group " + std::to_string(header_.lease().group_id()) +
                           " of worker '" + header_.worker_id() + "', the content group " +
                           std::to_string(group.group_id) + " of '" + group.worker_id + "'");
  }
  Submission submission;
  submission.worker_id = header_.worker_id();
  submission.incarnation = header_.incarnation();
  submission.lease = {header_.lease().group_id(), header_.lease().lease_epoch()};
  submission.content_sha256 = header_.content_sha256();
  submission.prompt_id = group.prompt_id;
  submission.accepted = SummarizeGroup(group);
  return submission;
}

void SubmitCall::Refuse(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) {
    metrics_.Submitted("malformed");
    Log(kWarn,
        "submission refused",
        {{"worker", header_.worker_id()},
         {"group", header_.lease().group_id()},
         {"error", status.message()}});
  }
  Answer(status);
}

FetchCall::FetchCall(CoordinatorLoop& loop,
                     CoordinatorMetrics& metrics,
                     const PayloadStore& payloads,
                     const v1::FetchGroupsRequest& request)
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
