#include "lib/experience/codec.h"

#include <fmt/core.h>
#include <google/protobuf/arena.h>

#include <climits>
#include <cmath>
#include <utility>

#include "lib/experience/narrow.h"

namespace buttress {
namespace {

constexpr std::size_t kDigestBytes = 32;

Status TooLarge(std::string_view field, std::uint64_t value, std::int64_t bound) {
  return InvalidArgument(fmt::format("{} = {}; expected at most {}", field, value, bound));
}

Status ReadSpans(const v1::Completion& proto, Completion& out) {
  out.segments.reserve(static_cast<std::size_t>(proto.segments_size()));
  for (const v1::Segment& segment : proto.segments()) {
    Segment& read = out.segments.emplace_back();
    BUTTRESS_RETURN_IF_ERROR(
        Narrow("segments.first_token", segment.first_token(), read.first_token));
    BUTTRESS_ASSIGN_OR_RETURN(read.version, FromProto(segment.version()));
  }
  out.trained_spans.reserve(static_cast<std::size_t>(proto.trained_spans_size()));
  for (const v1::TokenSpan& span : proto.trained_spans()) {
    TokenSpan& read = out.trained_spans.emplace_back();
    BUTTRESS_RETURN_IF_ERROR(Narrow("trained_spans.begin", span.begin(), read.begin));
    BUTTRESS_RETURN_IF_ERROR(Narrow("trained_spans.end", span.end(), read.end));
  }
  return OkStatus();
}

Status ReadVerdict(const v1::Completion& proto, Completion& out) {
  // Enums of proto3 are open: a value that only a newer peer knows arrives as its number.
  if (!v1::FinishReason_IsValid(proto.finish_reason())) {
    return InvalidArgument(fmt::format("finish_reason = {}; this version does not know it",
                                       static_cast<int>(proto.finish_reason())));
  }
  if (!v1::Outcome_IsValid(proto.outcome())) {
    return InvalidArgument(fmt::format("outcome = {}; this version does not know it",
                                       static_cast<int>(proto.outcome())));
  }
  if (!v1::Outcome_IsValid(proto.second_outcome())) {
    return InvalidArgument(fmt::format("second_outcome = {}; this version does not know it",
                                       static_cast<int>(proto.second_outcome())));
  }
  out.finish_reason = static_cast<FinishReason>(proto.finish_reason());
  out.outcome = static_cast<Outcome>(proto.outcome());
  out.second_outcome = static_cast<Outcome>(proto.second_outcome());
  out.unscorable_reason = proto.unscorable_reason();
  out.raw_reward = proto.raw_reward();
  out.reward = proto.reward();
  out.components.reserve(static_cast<std::size_t>(proto.components_size()));
  for (const v1::RewardComponent& component : proto.components()) {
    out.components.push_back({component.name(), component.value(), component.weight()});
  }
  return OkStatus();
}

}  // namespace

Status Narrow(std::string_view field, std::uint32_t value, std::int32_t& out) {
  if (value > static_cast<std::uint32_t>(INT32_MAX)) return TooLarge(field, value, INT32_MAX);
  out = static_cast<std::int32_t>(value);
  return OkStatus();
}

Status Narrow(std::string_view field, std::uint64_t value, std::int64_t& out) {
  if (value > static_cast<std::uint64_t>(INT64_MAX)) return TooLarge(field, value, INT64_MAX);
  out = static_cast<std::int64_t>(value);
  return OkStatus();
}

Status Narrow(std::string_view field, const google::protobuf::RepeatedField<std::uint32_t>& values,
              std::vector<std::int32_t>& out) {
  out.reserve(static_cast<std::size_t>(values.size()));
  for (const std::uint32_t value : values) {
    if (value > static_cast<std::uint32_t>(INT32_MAX)) return TooLarge(field, value, INT32_MAX);
    out.push_back(static_cast<std::int32_t>(value));
  }
  return OkStatus();
}

v1::PolicyVersion ToProto(const PolicyVersion& version) {
  v1::PolicyVersion proto;
  proto.set_learner_epoch(version.learner_epoch);
  proto.set_step(version.step);
  proto.set_digest(version.digest);
  return proto;
}

Result<PolicyVersion> FromProto(const v1::PolicyVersion& proto) {
  if (!proto.digest().empty() && proto.digest().size() != kDigestBytes) {
    return InvalidArgument(fmt::format("version.digest has {} bytes; expected {} or none",
                                       proto.digest().size(), kDigestBytes));
  }
  return PolicyVersion{proto.learner_epoch(), proto.step(), proto.digest()};
}

v1::SamplingParams ToProto(const SamplingParams& sampling) {
  v1::SamplingParams proto;
  proto.set_temperature(sampling.temperature);
  proto.set_top_p(sampling.top_p);
  proto.set_top_k(static_cast<std::uint32_t>(sampling.top_k));
  proto.set_max_tokens(static_cast<std::uint32_t>(sampling.max_tokens));
  proto.mutable_stop_token_ids()->Add(sampling.stop_token_ids.begin(),
                                      sampling.stop_token_ids.end());
  proto.set_seed(sampling.seed);
  proto.mutable_stop()->Add(sampling.stop.begin(), sampling.stop.end());
  proto.set_min_tokens(static_cast<std::uint32_t>(sampling.min_tokens));
  proto.set_include_stop(sampling.include_stop);
  return proto;
}

Result<SamplingParams> FromProto(const v1::SamplingParams& proto) {
  SamplingParams sampling;
  sampling.temperature = proto.temperature();
  sampling.top_p = proto.top_p();
  sampling.seed = proto.seed();
  sampling.include_stop = proto.include_stop();
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return InvalidArgument(
        fmt::format("sampling.temperature = {}; expected 0 or more", sampling.temperature));
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return InvalidArgument(
        fmt::format("sampling.top_p = {}; expected a number in (0, 1]", sampling.top_p));
  }
  BUTTRESS_RETURN_IF_ERROR(Narrow("sampling.top_k", proto.top_k(), sampling.top_k));
  BUTTRESS_RETURN_IF_ERROR(Narrow("sampling.max_tokens", proto.max_tokens(), sampling.max_tokens));
  if (sampling.max_tokens < 1)
    return InvalidArgument("sampling.max_tokens = 0; expected at least 1");
  BUTTRESS_RETURN_IF_ERROR(Narrow("sampling.min_tokens", proto.min_tokens(), sampling.min_tokens));
  if (sampling.min_tokens > sampling.max_tokens) {
    return InvalidArgument(fmt::format("sampling.min_tokens = {}; expected at most max_tokens = {}",
                                       sampling.min_tokens, sampling.max_tokens));
  }
  BUTTRESS_RETURN_IF_ERROR(
      Narrow("sampling.stop_token_ids", proto.stop_token_ids(), sampling.stop_token_ids));
  sampling.stop.assign(proto.stop().begin(), proto.stop().end());
  if (std::ranges::count(sampling.stop, "") > 0)
    return InvalidArgument("sampling.stop has an empty text; expected a character or more");
  return sampling;
}

v1::Completion ToProto(const Completion& completion) {
  v1::Completion proto;
  proto.set_index(static_cast<std::uint32_t>(completion.index));
  proto.mutable_token_ids()->Add(completion.token_ids.begin(), completion.token_ids.end());
  proto.mutable_logprobs()->Add(completion.logprobs.begin(), completion.logprobs.end());
  *proto.mutable_sampling() = ToProto(completion.sampling);
  for (const Segment& segment : completion.segments) {
    v1::Segment* out = proto.add_segments();
    out->set_first_token(static_cast<std::uint32_t>(segment.first_token));
    *out->mutable_version() = ToProto(segment.version);
  }
  for (const TokenSpan& span : completion.trained_spans) {
    v1::TokenSpan* out = proto.add_trained_spans();
    out->set_begin(static_cast<std::uint32_t>(span.begin));
    out->set_end(static_cast<std::uint32_t>(span.end));
  }
  proto.set_finish_reason(static_cast<v1::FinishReason>(completion.finish_reason));
  proto.set_outcome(static_cast<v1::Outcome>(completion.outcome));
  proto.set_unscorable_reason(completion.unscorable_reason);
  proto.set_raw_reward(completion.raw_reward);
  proto.set_reward(completion.reward);
  for (const RewardComponent& component : completion.components) {
    v1::RewardComponent* out = proto.add_components();
    out->set_name(component.name);
    out->set_value(component.value);
    out->set_weight(component.weight);
  }
  proto.set_parent_id(completion.parent_id);
  proto.set_extracted_answer(completion.extracted_answer);
  proto.set_generation_seconds(completion.generation_seconds);
  proto.set_second_outcome(static_cast<v1::Outcome>(completion.second_outcome));
  return proto;
}

Result<Completion> FromProto(const v1::Completion& proto) {
  Completion completion;
  BUTTRESS_RETURN_IF_ERROR(Narrow("index", proto.index(), completion.index));
  BUTTRESS_RETURN_IF_ERROR(Narrow("token_ids", proto.token_ids(), completion.token_ids));
  completion.logprobs.assign(proto.logprobs().begin(), proto.logprobs().end());
  BUTTRESS_ASSIGN_OR_RETURN(completion.sampling, FromProto(proto.sampling()));
  BUTTRESS_RETURN_IF_ERROR(ReadSpans(proto, completion));
  BUTTRESS_RETURN_IF_ERROR(ReadVerdict(proto, completion));
  completion.parent_id = proto.parent_id();
  completion.extracted_answer = proto.extracted_answer();
  completion.generation_seconds = proto.generation_seconds();
  return completion;
}

v1::Group ToProto(const Group& group) {
  v1::Group proto;
  proto.set_group_id(group.group_id);
  proto.set_prompt_id(group.prompt_id);
  proto.set_source(group.source);
  proto.mutable_prompt_token_ids()->Add(group.prompt_token_ids.begin(),
                                        group.prompt_token_ids.end());
  for (const Completion& completion : group.completions)
    *proto.add_completions() = ToProto(completion);
  proto.set_worker_id(group.worker_id);
  return proto;
}

Result<Group> FromProto(const v1::Group& proto) {
  Group group;
  group.group_id = proto.group_id();
  group.prompt_id = proto.prompt_id();
  group.source = proto.source();
  group.worker_id = proto.worker_id();
  BUTTRESS_RETURN_IF_ERROR(
      Narrow("prompt_token_ids", proto.prompt_token_ids(), group.prompt_token_ids));
  group.completions.reserve(static_cast<std::size_t>(proto.completions_size()));
  for (int i = 0; i < proto.completions_size(); ++i) {
    Result<Completion> completion = FromProto(proto.completions(i));
    if (!completion.ok()) return completion.status().Annotate("completion " + std::to_string(i));
    group.completions.push_back(*std::move(completion));
  }
  return group;
}

std::string EncodeGroup(const Group& group) { return ToProto(group).SerializeAsString(); }

Result<Group> DecodeGroup(std::string_view bytes, const GroupLimits& limits) {
  google::protobuf::Arena arena;  // one allocation for the messages of all completions
  auto* const proto = google::protobuf::Arena::CreateMessage<v1::Group>(&arena);
  if (bytes.size() > static_cast<std::size_t>(INT_MAX) ||
      !proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument(
        fmt::format("a payload of {} bytes is not a serialized buttress.v1.Group", bytes.size()));
  }
  BUTTRESS_ASSIGN_OR_RETURN(Group group, FromProto(*proto));
  BUTTRESS_RETURN_IF_ERROR(CheckGroup(group, limits));
  return group;
}

}  // namespace buttress
