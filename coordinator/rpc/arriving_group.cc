#include "coordinator/rpc/arriving_group.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "coordinator/rpc/handlers.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
#include "lib/experience/group.h"

namespace buttress {
namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kLoggedBytes = 1024;  // of an error, which may name what a group holds
// More than a completion has, and more than a token adds to it with a segment of its own.
constexpr std::uint64_t kCompletionBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kTokenBytes = 256;

// NaN without a scorable completion.
double MeanRawReward(const v1::GroupHead& head) {
  DrawnTotals totals;
  totals.Add(head);
  return totals.raw_reward / static_cast<double>(totals.scorable);
}

// UNSPECIFIED for an outcome that is an error.
v1::SubmitResult ResultOf(SubmitOutcome outcome) {
  constexpr v1::SubmitResult kResults[kSubmitOutcomes] = {
      v1::SUBMIT_RESULT_ACCEPTED, v1::SUBMIT_RESULT_DUPLICATE, v1::SUBMIT_RESULT_STALE_FENCE,
      v1::SUBMIT_RESULT_STALE_POLICY};
  return kResults[static_cast<std::size_t>(outcome)];
}

// REQUIRES: the group has passed CheckGroup.
SampledAs SampledAsOf(const v1::Group& group) {
  SampledAs sampled{group.head().source(),
                    PromptDigest(PromptOf(group)),
                    *FromProto(group.sampling()),
                    {},
                    !group.turns().empty()};
  for (const v1::PolicyVersion& version : group.head().versions())
    sampled.versions.push_back(*FromProto(version));
  return sampled;
}

// Checks that a submitted group is what its lease asked for. A worker that samples another prompt,
// in another way, or from weights that this run did not publish, submits what no gradient may use.
// kInvalidArgument says what differs. REQUIRES: the group is leased.
Status CheckAsLeased(Turn& turn, const GroupRow& group, const SampledAs& sampled) {
  const auto refuse = [&](const std::string& what) {
    return InvalidArgument(
        fmt::format("group {} is not what was leased: {}", group.group_id, what));
  };
  if (sampled.source != group.prompt.source)
    return refuse(fmt::format("source '{}', expected '{}'", sampled.source, group.prompt.source));
  auto leased = turn.leased_prompts.find(group.group_id);
  if (leased == turn.leased_prompts.end()) {  // leased before this process started
    BUTTRESS_ASSIGN_OR_RETURN(const Prompt prompt, turn.prompts.Read(group.prompt));
    leased = turn.leased_prompts.emplace(group.group_id, PromptDigest(prompt.token_ids)).first;
  }
  if (!sampled.episodes && sampled.prompt_digest != leased->second)
    return refuse("other prompt tokens");
  if (sampled.sampling != SamplingOf(turn.terms, group.prompt))
    return refuse("other sampling parameters");
  for (const PolicyVersion& version : sampled.versions) {
    const std::string announced = turn.scheduler.DigestOf(version).value_or("");
    if (announced.empty() || version.digest != announced) {
      return refuse(fmt::format("version {} with the digest '{}', announced was '{}'",
                                ToString(version), ToHex(version.digest), ToHex(announced)));
    }
  }
  return OkStatus();
}

// Returns a size that no group within `limits` exceeds, kMaxGroupBytes at most.
std::uint64_t MaxGroupBytes(const GroupLimits& limits) {
  const auto tokens = static_cast<std::uint64_t>(limits.max_completion_tokens);
  const auto completions = static_cast<std::uint64_t>(limits.max_completions) *
                           static_cast<std::uint64_t>(std::max(1, limits.max_branches));
  const auto prompt = kTokenBytes * static_cast<std::uint64_t>(limits.max_prompt_tokens);
  return std::min(kMaxGroupBytes, prompt + completions * (kCompletionBytes + kTokenBytes * tokens));
}

}  // namespace

ArrivingGroup::~ArrivingGroup() {
  if (reserved_ > 0) arriving_.Return(reserved_);
}

ArrivingGroup::Next ArrivingGroup::Add(v1::SubmitGroupsRequest& part, Status& answer) {
  Status status = AddPart(part);
  if (status.ok() && bytes_.size() < header_.total_bytes()) return Next::kPart;
  if (status.ok()) status = ParseGroup();
  if (status.ok()) return Next::kApply;
  if (status.code() == StatusCode::kInvalidArgument) {
    metrics_.Submitted("malformed");
    Log(kWarn, "submission refused",
        {{"worker", header_.worker_id()},
         {"group", header_.lease().group_id()},
         {"error", status.message().substr(0, kLoggedBytes)}});
  }
  // The loop ends the lease, unless the group may come again or has no header to name one.
  if (!has_header_ || status.code() == StatusCode::kUnavailable) {
    answer = std::move(status);
    return Next::kAnswer;
  }
  refusal_ = std::move(status);
  return Next::kApply;
}

Status ArrivingGroup::LeftEarly() const {
  return InvalidArgument(fmt::format("the call ended after {} of {} bytes of a group",
                                     bytes_.size(), header_.total_bytes()));
}

Status ArrivingGroup::Apply(Turn& turn, v1::SubmitGroupsResponse& response) {
  BUTTRESS_RETURN_IF_ERROR(CheckWorkerRun(turn, header_.run_id()));
  BUTTRESS_RETURN_IF_ERROR(turn.scheduler.workers().CheckCaller(
      header_.worker_id(), header_.incarnation(), Sha256Of(header_.worker_secret())));
  if (!refusal_.ok()) {
    EndRefusedLease(turn, refusal_);
    return refusal_;
  }
  if (turn.scheduler.Check(submission_) == SubmitOutcome::kAccepted) {
    const GroupRow& group = *turn.scheduler.groups().Find(submission_.lease.group_id);
    if (Status same = CheckAsLeased(turn, group, sampled_); !same.ok()) {
      metrics_.Submitted(SubmitOutcomeName(SubmitOutcome::kMismatch));
      EndRefusedLease(turn, same);
      return same;
    }
    auto payload = turn.payloads.Append(submission_.lease, bytes_, submission_.content_sha256);
    if (!payload.ok()) {
      const bool full = payload.status().code() == StatusCode::kResourceExhausted;
      (full ? turn.full : turn.failed) = payload.status();
      metrics_.Submitted("backpressure");
      return Unavailable("the payload cannot be stored: " + payload.status().message());
    }
    submission_.payload = *payload;
    turn.payloads_appended = true;
    metrics_.submission_bytes.Increment(static_cast<double>(bytes_.size()));
    if (const double mean = MeanRawReward(submission_.head); !std::isnan(mean))
      metrics_.group_raw_reward_mean.Observe(mean);
  }
  const LeaseRef lease = submission_.lease;
  const SubmitOutcome outcome = turn.scheduler.Submit(std::move(submission_), turn.changes);
  metrics_.Submitted(SubmitOutcomeName(outcome));
  response.set_result(ResultOf(outcome));
  if (outcome == SubmitOutcome::kConflict) {
    return AlreadyExists(
        fmt::format("group {} under lease epoch {} was accepted with other content", lease.group_id,
                    lease.lease_epoch));
  }
  if (outcome == SubmitOutcome::kMismatch) {
    Status mismatch = InvalidArgument(
        fmt::format("group {} under lease epoch {} is not what was leased: another prompt, too "
                    "many completions, or a version that was never announced",
                    lease.group_id, lease.lease_epoch));
    EndRefusedLease(turn, mismatch);
    return mismatch;
  }
  return OkStatus();
}

void ArrivingGroup::EndRefusedLease(Turn& turn, const Status& why) {
  const std::string& worker = header_.worker_id();
  if (!turn.scheduler.Refuse(worker, header_.incarnation(), FromProto(header_.lease()), turn.now_ms,
                             turn.changes))
    return;
  if (Status bound = turn.scheduler.NoteRefusal(worker, why.message()); !bound.ok())
    turn.failed = std::move(bound);
}

Status ArrivingGroup::AddPart(v1::SubmitGroupsRequest& part) {
  if (part.has_header() == has_header_)
    return InvalidArgument("a submission is one header, then data");
  if (part.has_header()) BUTTRESS_RETURN_IF_ERROR(BeginGroup(*part.mutable_header()));
  std::string& data = *part.mutable_data();
  if (data.size() > header_.total_bytes() - bytes_.size()) {
    return InvalidArgument(
        fmt::format("more data than the {} bytes of the header", header_.total_bytes()));
  }
  if (data.size() == header_.total_bytes()) {
    bytes_ = std::move(data);
  } else {
    bytes_.reserve(header_.total_bytes());
    bytes_ += data;
  }
  return OkStatus();
}

Status ArrivingGroup::BeginGroup(v1::SubmitHeader& header) {
  if (!IsPlainName(header.worker_id())) {
    return InvalidArgument(
        fmt::format("worker_id has {} bytes; expected at most {} without white space or control "
                    "characters",
                    header.worker_id().size(), kMaxNameBytes));
  }
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
  if (!arriving_.Take(header_.total_bytes())) {
    metrics_.Submitted("backpressure");
    return Unavailable("all workers together have too many groups in submission; try again");
  }
  reserved_ = header_.total_bytes();
  submission_.worker_id = header_.worker_id();
  submission_.incarnation = header_.incarnation();
  submission_.lease = FromProto(header_.lease());
  submission_.content_sha256 = header_.content_sha256();
  return OkStatus();
}

Status ArrivingGroup::ParseGroup() {
  if (Sha256Of(bytes_) != header_.content_sha256())
    return InvalidArgument("the bytes do not have the SHA-256 of the header");
  BUTTRESS_ASSIGN_OR_RETURN(v1::Group group, DecodeGroup(bytes_, limits_));
  const v1::GroupHead& head = group.head();
  if (head.group_id() != header_.lease().group_id() || head.worker_id() != header_.worker_id()) {
    return InvalidArgument(fmt::format(
        "header names group {} of worker '{}', content is group {} of '{}'",
        header_.lease().group_id(), header_.worker_id(), head.group_id(), head.worker_id()));
  }
  sampled_ = SampledAsOf(group);
  submission_.head = SummarizeGroup(std::move(group));
  return OkStatus();
}

}  // namespace buttress
