#include "lib/experience/partial.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "lib/experience/codec.h"
#include "lib/experience/lease.h"

namespace buttress {
namespace {

Status CheckColumns(const v1::PartialCompletion& proto) {
  const int tokens = proto.token_ids_size();
  if (proto.completion() < 0 || proto.completion() >= kMaxCompletions)
    return InvalidArgument(
        fmt::format("completion = {}; expected 0 to {}", proto.completion(), kMaxCompletions - 1));
  const bool fits = 0 <= proto.first_token() &&
                    proto.first_token() <= std::numeric_limits<std::int32_t>::max() - tokens;
  if (!fits || tokens == 0 || proto.logprobs_size() != tokens) {
    return InvalidArgument(
        fmt::format("{} tokens from index {} and {} log-probs; expected tokens, an index from 0, "
                    "and as many log-probs",
                    tokens, proto.first_token(), proto.logprobs_size()));
  }
  if (std::ranges::any_of(proto.token_ids(), [](std::int32_t id) { return id < 0; }))
    return InvalidArgument("a token is negative");
  if (!std::ranges::all_of(proto.logprobs(), [](float p) { return std::isfinite(p) && p <= 0; }))
    return InvalidArgument("a log-prob is not a number of at most 0");
  const v1::FinishReason reason = proto.finish_reason();
  if (reason != v1::FINISH_REASON_UNSPECIFIED && reason != v1::FINISH_REASON_STOP &&
      reason != v1::FINISH_REASON_LENGTH) {
    return InvalidArgument(
        fmt::format("finish_reason = {}; expected none, stop or length", static_cast<int>(reason)));
  }
  return OkStatus();
}

}  // namespace

void PartialCompletion::Cut(std::int32_t end) {
  if (end >= this->end()) return;
  const auto kept = static_cast<std::size_t>(end - first_token);
  token_ids.resize(kept);
  logprobs.resize(kept);
  std::erase_if(segments, [end](const Segment& segment) { return segment.first_token >= end; });
  finish_reason = FinishReason::kUnspecified;
}

void PartialCompletion::Append(PartialCompletion next) {
  token_ids.insert(token_ids.end(), next.token_ids.begin(), next.token_ids.end());
  logprobs.insert(logprobs.end(), next.logprobs.begin(), next.logprobs.end());
  for (Segment& segment : next.segments) {
    if (segments.empty() || !(segments.back().version == segment.version))
      segments.push_back(std::move(segment));
  }
  finish_reason = next.finish_reason;
}

PartialCompletion PartFrom(std::int32_t completion, std::int32_t first,
                           std::span<const std::int32_t> token_ids, std::span<const float> logprobs,
                           std::span<const Segment> segments) {
  const auto from = static_cast<std::size_t>(first);
  PartialCompletion part;
  part.completion = completion;
  part.first_token = first;
  part.token_ids.assign(token_ids.begin() + first, token_ids.end());
  part.logprobs.assign(logprobs.begin() + first, logprobs.end());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto end = i + 1 < segments.size() ? static_cast<std::size_t>(segments[i + 1].first_token)
                                             : token_ids.size();
    if (end > from)
      part.segments.push_back({std::max(first, segments[i].first_token), segments[i].version});
  }
  return part;
}

v1::PartialCompletion ToProto(const PartialCompletion& partial) {
  v1::PartialCompletion proto;
  proto.set_completion(partial.completion);
  proto.set_first_token(partial.first_token);
  proto.mutable_token_ids()->Add(partial.token_ids.begin(), partial.token_ids.end());
  proto.mutable_logprobs()->Add(partial.logprobs.begin(), partial.logprobs.end());
  for (const Segment& segment : partial.segments) {
    *proto.add_versions() = ToProto(segment.version);
    proto.add_version_starts(segment.first_token);
  }
  proto.set_finish_reason(static_cast<v1::FinishReason>(partial.finish_reason));
  return proto;
}

Result<PartialCompletion> FromProto(const v1::PartialCompletion& proto) {
  BUTTRESS_RETURN_IF_ERROR(CheckColumns(proto));
  PartialCompletion partial;
  partial.completion = proto.completion();
  partial.first_token = proto.first_token();
  partial.token_ids.assign(proto.token_ids().begin(), proto.token_ids().end());
  partial.logprobs.assign(proto.logprobs().begin(), proto.logprobs().end());
  partial.finish_reason = static_cast<FinishReason>(proto.finish_reason());
  const Status bad = InvalidArgument(
      "versions do not cover the tokens in order, or become older from one to the next");
  if (proto.versions_size() == 0 || proto.versions_size() != proto.version_starts_size() ||
      proto.version_starts(0) != partial.first_token)
    return bad;
  for (int i = 0; i < proto.versions_size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(PolicyVersion version, FromProto(proto.versions(i)));
    const std::int32_t start = proto.version_starts(i);
    if (start >= partial.end()) return bad;
    if (i > 0 && (start <= partial.segments.back().first_token ||
                  OlderThan(version, partial.segments.back().version)))
      return bad;
    partial.segments.push_back({start, std::move(version)});
  }
  return partial;
}

}  // namespace buttress
