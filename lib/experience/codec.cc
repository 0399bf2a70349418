#include "lib/experience/codec.h"

#include <fmt/core.h>

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

}  // namespace buttress
