#include "lib/experience/codec.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "buttress/v1/outline.pb.h"

namespace buttress {
namespace {

constexpr std::size_t kDigestBytes = 32;

Status OutOfType(std::string_view field, std::uint64_t value, std::string_view bound) {
  return InvalidArgument(std::string(field) + " = " + std::to_string(value) +
                         "; expected at most " + std::string(bound));
}

Status Narrow(std::string_view field, std::uint32_t value, std::int32_t& out) {
  if (value > static_cast<std::uint32_t>(INT32_MAX)) return OutOfType(field, value, "2147483647");
  out = static_cast<std::int32_t>(value);
  return OkStatus();
}

Status Narrow(std::string_view field, std::uint64_t value, std::int64_t& out) {
  if (value > static_cast<std::uint64_t>(INT64_MAX))
    return OutOfType(field, value, "9223372036854775807");
  out = static_cast<std::int64_t>(value);
  return OkStatus();
}

Status Narrow(std::string_view field, const google::protobuf::RepeatedField<std::uint32_t>& values,
              std::vector<std::int32_t>& out) {
  out.resize(static_cast<std::size_t>(values.size()));
  for (int i = 0; i < values.size(); ++i) {
    BUTTRESS_RETURN_IF_ERROR(Narrow(field, values[i], out[static_cast<std::size_t>(i)]));
  }
  return OkStatus();
}

// A rate or share.
Status CheckUnit(std::string_view field, double value) {
  if (value >= 0 && value <= 1) return OkStatus();
  return InvalidArgument(std::string(field) + " = " + std::to_string(value) +
                         "; expected a number in [0, 1]");
}

// The varint that begins at `next`, which moves behind it; false if it does not end before `end`.
bool TakeVarint(const std::uint8_t*& next, const std::uint8_t* end, std::uint64_t& value) {
  constexpr int kBits = 64;
  value = 0;
  for (int shift = 0; next != end && shift < kBits; shift += 7) {
    const std::uint8_t byte = *next++;
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

Status ReadTokens(std::string_view field, std::string_view packed, std::vector<std::int32_t>& out) {
  const auto* next = reinterpret_cast<const std::uint8_t*>(packed.data());
  const auto* const end = next + packed.size();
  out.resize(packed.size());
  std::int32_t* token = out.data();
  while (next != end) {
    // Most token ids have one or two bytes.
    if (next[0] < 0x80) {
      *token++ = *next++;
    } else if (end - next > 1 && next[1] < 0x80) {
      *token++ = (next[0] & 0x7F) | next[1] << 7;
      next += 2;
    } else {
      std::uint64_t value = 0;
      if (!TakeVarint(next, end, value))
        return InvalidArgument(std::string(field) + " ends inside a number");
      if (value > static_cast<std::uint64_t>(INT32_MAX))
        return OutOfType(field, value, "2147483647");
      *token++ = static_cast<std::int32_t>(value);
    }
  }
  out.resize(static_cast<std::size_t>(token - out.data()));
  return OkStatus();
}

Status ReadTokens(std::string_view field,
                  const google::protobuf::RepeatedField<std::uint32_t>& values,
                  std::vector<std::int32_t>& out) {
  return Narrow(field, values, out);
}

Status ReadFloats(std::string_view field, std::string_view packed, std::vector<float>& out) {
  static_assert(std::endian::native == std::endian::little, "protobuf's floats are little-endian");
  if (packed.size() % sizeof(float) != 0)
    return InvalidArgument(std::string(field) + " ends inside a number");
  out.resize(packed.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), packed.data(), packed.size());
  return OkStatus();
}

Status ReadFloats(std::string_view, const google::protobuf::RepeatedField<float>& values,
                  std::vector<float>& out) {
  out.assign(values.begin(), values.end());
  return OkStatus();
}

template <class Proto>
void AssignTokens(const std::vector<std::int32_t>& tokens, Proto* proto) {
  proto->Reserve(static_cast<int>(tokens.size()));
  for (const std::int32_t token : tokens)
    proto->AddAlreadyReserved(static_cast<std::uint32_t>(token));
}

template <class Proto>
Status ReadSpans(const Proto& proto, Completion& out) {
  out.segments.resize(static_cast<std::size_t>(proto.segments_size()));
  for (std::size_t i = 0; i < out.segments.size(); ++i) {
    const v1::Segment& segment = proto.segments(static_cast<int>(i));
    BUTTRESS_RETURN_IF_ERROR(
        Narrow("segments.first_token", segment.first_token(), out.segments[i].first_token));
    BUTTRESS_ASSIGN_OR_RETURN(out.segments[i].version, FromProto(segment.version()));
  }
  out.trained_spans.resize(static_cast<std::size_t>(proto.trained_spans_size()));
  for (std::size_t i = 0; i < out.trained_spans.size(); ++i) {
    const v1::TokenSpan& span = proto.trained_spans(static_cast<int>(i));
    BUTTRESS_RETURN_IF_ERROR(
        Narrow("trained_spans.begin", span.begin(), out.trained_spans[i].begin));
    BUTTRESS_RETURN_IF_ERROR(Narrow("trained_spans.end", span.end(), out.trained_spans[i].end));
  }
  return OkStatus();
}

template <class Proto>
Status ReadVerdict(const Proto& proto, Completion& out) {
  // Enums of proto3 are open: a newer peer's value arrives as its number.
  if (!v1::FinishReason_IsValid(proto.finish_reason())) {
    return InvalidArgument("finish_reason = " + std::to_string(proto.finish_reason()) +
                           " is not known here");
  }
  if (!v1::Outcome_IsValid(proto.outcome())) {
    return InvalidArgument("outcome = " + std::to_string(proto.outcome()) + " is not known here");
  }
  out.finish_reason = static_cast<FinishReason>(proto.finish_reason());
  out.outcome = static_cast<Outcome>(proto.outcome());
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

v1::PolicyVersion ToProto(const PolicyVersion& version) {
  v1::PolicyVersion proto;
  proto.set_learner_epoch(version.learner_epoch);
  proto.set_step(version.step);
  proto.set_digest(version.digest);
  return proto;
}

Result<PolicyVersion> FromProto(const v1::PolicyVersion& proto) {
  if (!proto.digest().empty() && proto.digest().size() != kDigestBytes) {
    return InvalidArgument("version.digest has " + std::to_string(proto.digest().size()) +
                           " bytes; expected 32 or none");
  }
  return PolicyVersion{proto.learner_epoch(), proto.step(), proto.digest()};
}

v1::SamplingParams ToProto(const SamplingParams& sampling) {
  v1::SamplingParams proto;
  proto.set_temperature(sampling.temperature);
  proto.set_top_p(sampling.top_p);
  proto.set_top_k(static_cast<std::uint32_t>(sampling.top_k));
  proto.set_max_tokens(static_cast<std::uint32_t>(sampling.max_tokens));
  AssignTokens(sampling.stop_token_ids, proto.mutable_stop_token_ids());
  proto.set_seed(sampling.seed);
  return proto;
}

Result<SamplingParams> FromProto(const v1::SamplingParams& proto) {
  SamplingParams sampling;
  sampling.temperature = proto.temperature();
  sampling.top_p = proto.top_p();
  sampling.seed = proto.seed();
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return InvalidArgument("sampling.temperature = " + std::to_string(sampling.temperature) +
                           "; expected 0 or more");
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return InvalidArgument("sampling.top_p = " + std::to_string(sampling.top_p) +
                           "; expected a number in (0, 1]");
  }
  BUTTRESS_RETURN_IF_ERROR(Narrow("sampling.top_k", proto.top_k(), sampling.top_k));
  BUTTRESS_RETURN_IF_ERROR(Narrow("sampling.max_tokens", proto.max_tokens(), sampling.max_tokens));
  if (sampling.max_tokens < 1)
    return InvalidArgument("sampling.max_tokens = 0; expected at least 1");
  BUTTRESS_RETURN_IF_ERROR(
      Narrow("sampling.stop_token_ids", proto.stop_token_ids(), sampling.stop_token_ids));
  return sampling;
}

v1::Completion ToProto(const Completion& completion) {
  v1::Completion proto;
  proto.set_index(static_cast<std::uint32_t>(completion.index));
  AssignTokens(completion.token_ids, proto.mutable_token_ids());
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
  return proto;
}

namespace {

template <class Proto>
Result<Completion> ReadCompletion(const Proto& proto) {
  Completion completion;
  BUTTRESS_RETURN_IF_ERROR(Narrow("index", proto.index(), completion.index));
  BUTTRESS_RETURN_IF_ERROR(ReadTokens("token_ids", proto.token_ids(), completion.token_ids));
  BUTTRESS_RETURN_IF_ERROR(ReadFloats("logprobs", proto.logprobs(), completion.logprobs));
  BUTTRESS_ASSIGN_OR_RETURN(completion.sampling, FromProto(proto.sampling()));
  BUTTRESS_RETURN_IF_ERROR(ReadSpans(proto, completion));
  BUTTRESS_RETURN_IF_ERROR(ReadVerdict(proto, completion));
  completion.parent_id = proto.parent_id();
  completion.extracted_answer = proto.extracted_answer();
  completion.generation_seconds = proto.generation_seconds();
  return completion;
}

template <class Proto>
Result<Group> ReadGroup(const Proto& proto) {
  Group group;
  group.group_id = proto.group_id();
  group.prompt_id = proto.prompt_id();
  group.source = proto.source();
  group.worker_id = proto.worker_id();
  BUTTRESS_RETURN_IF_ERROR(
      ReadTokens("prompt_token_ids", proto.prompt_token_ids(), group.prompt_token_ids));
  group.completions.reserve(static_cast<std::size_t>(proto.completions_size()));
  for (int i = 0; i < proto.completions_size(); ++i) {
    Result<Completion> completion = ReadCompletion(proto.completions(i));
    if (!completion.ok()) return completion.status().Annotate("completion " + std::to_string(i));
    group.completions.push_back(*std::move(completion));
  }
  return group;
}

// False for bytes that protobuf reads as more than the outline shows: numbers in several pieces, or
// one by one.
bool IsWhole(const v1::GroupOutline& outline, std::size_t bytes) {
  const auto complete = [](const google::protobuf::Message& message) {
    return message.GetReflection()->GetUnknownFields(message).empty();
  };
  return outline.ByteSizeLong() == bytes && complete(outline) &&
         std::ranges::all_of(outline.completions(), complete);
}

template <class Proto>
Proto* Parse(std::string_view bytes, google::protobuf::Arena& arena) {
  auto* const proto = google::protobuf::Arena::CreateMessage<Proto>(&arena);
  if (bytes.size() > static_cast<std::size_t>(INT_MAX)) return nullptr;
  return proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ? proto : nullptr;
}

}  // namespace

Result<Completion> FromProto(const v1::Completion& proto) { return ReadCompletion(proto); }

v1::Group ToProto(const Group& group) {
  v1::Group proto;
  proto.set_group_id(group.group_id);
  proto.set_prompt_id(group.prompt_id);
  proto.set_source(group.source);
  AssignTokens(group.prompt_token_ids, proto.mutable_prompt_token_ids());
  for (const Completion& completion : group.completions)
    *proto.add_completions() = ToProto(completion);
  proto.set_worker_id(group.worker_id);
  return proto;
}

Result<Group> FromProto(const v1::Group& proto) { return ReadGroup(proto); }

v1::PromptHistory ToProto(const PromptHistory& history) {
  v1::PromptHistory proto;
  proto.set_correct(static_cast<std::uint64_t>(history.correct));
  proto.set_scored(static_cast<std::uint64_t>(history.scored));
  return proto;
}

Result<PromptHistory> FromProto(const v1::PromptHistory& proto) {
  PromptHistory history;
  BUTTRESS_RETURN_IF_ERROR(Narrow("history.correct", proto.correct(), history.correct));
  BUTTRESS_RETURN_IF_ERROR(Narrow("history.scored", proto.scored(), history.scored));
  if (history.correct > history.scored) {
    return InvalidArgument("history.correct = " + std::to_string(history.correct) +
                           " is more than history.scored = " + std::to_string(history.scored));
  }
  return history;
}

v1::CollapseCounts ToProto(const CollapseCounts& counts) {
  v1::CollapseCounts proto;
  proto.set_groups(static_cast<std::uint64_t>(counts.groups));
  proto.set_all_correct(static_cast<std::uint64_t>(counts.all_correct));
  proto.set_all_wrong(static_cast<std::uint64_t>(counts.all_wrong));
  proto.set_other_constant(static_cast<std::uint64_t>(counts.other_constant));
  proto.set_mixed(static_cast<std::uint64_t>(counts.mixed));
  proto.set_unscorable(static_cast<std::uint64_t>(counts.unscorable));
  return proto;
}

Result<CollapseCounts> FromProto(const v1::CollapseCounts& proto) {
  CollapseCounts counts;
  BUTTRESS_RETURN_IF_ERROR(Narrow("collapse.groups", proto.groups(), counts.groups));
  std::uint64_t rest = proto.groups();
  const std::pair<std::uint64_t, std::int64_t*> parts[] = {
      {proto.all_correct(), &counts.all_correct},
      {proto.all_wrong(), &counts.all_wrong},
      {proto.other_constant(), &counts.other_constant},
      {proto.mixed(), &counts.mixed},
      {proto.unscorable(), &counts.unscorable}};
  bool fits = true;
  for (const auto& [value, out] : parts) {
    fits = fits && value <= rest;
    if (!fits) break;
    rest -= value;
    *out = static_cast<std::int64_t>(value);
  }
  if (!fits || rest != 0) {
    return InvalidArgument("the classes of collapse do not add up to collapse.groups = " +
                           std::to_string(counts.groups));
  }
  return counts;
}

v1::CollapseSnapshot ToProto(const CollapseSnapshot& snapshot) {
  v1::CollapseSnapshot proto;
  *proto.mutable_step() = ToProto(snapshot.step);
  *proto.mutable_cumulative() = ToProto(snapshot.cumulative);
  proto.set_acr_ema(snapshot.acr_ema);
  proto.set_expected_acr(snapshot.expected_acr);
  return proto;
}

Result<CollapseSnapshot> FromProto(const v1::CollapseSnapshot& proto) {
  CollapseSnapshot snapshot;
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.step, FromProto(proto.step()));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.cumulative, FromProto(proto.cumulative()));
  BUTTRESS_RETURN_IF_ERROR(CheckUnit("collapse.acr_ema", proto.acr_ema()));
  BUTTRESS_RETURN_IF_ERROR(CheckUnit("collapse.expected_acr", proto.expected_acr()));
  snapshot.acr_ema = proto.acr_ema();
  snapshot.expected_acr = proto.expected_acr();
  return snapshot;
}

std::string EncodeGroup(const Group& group) { return ToProto(group).SerializeAsString(); }

Result<Group> DecodeGroup(std::string_view bytes, const GroupLimits& limits) {
  google::protobuf::Arena arena;  // one allocation for the messages of all completions
  const auto* const outline = Parse<v1::GroupOutline>(bytes, arena);
  const bool whole = outline != nullptr && IsWhole(*outline, bytes.size());
  const auto* const proto = whole ? nullptr : Parse<v1::Group>(bytes, arena);
  if (!whole && proto == nullptr) {
    return InvalidArgument("a group of " + std::to_string(bytes.size()) +
                           " bytes is not a serialized buttress.v1.Group");
  }
  BUTTRESS_ASSIGN_OR_RETURN(Group group, whole ? ReadGroup(*outline) : ReadGroup(*proto));
  BUTTRESS_RETURN_IF_ERROR(CheckGroup(group, limits));
  return group;
}

}  // namespace buttress
