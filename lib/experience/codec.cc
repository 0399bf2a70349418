#include "lib/experience/codec.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace buttress {
namespace {

constexpr std::size_t kDigestBytes = 32;

// kInvalidArgument, with the name of the field, for a number that `out` cannot hold.
template <class Unsigned, class Signed>
Status Narrow(std::string_view field, Unsigned value, Signed& out) {
  constexpr Signed kMost = std::numeric_limits<Signed>::max();
  if (value > static_cast<Unsigned>(kMost))
    return InvalidArgument(fmt::format("{} = {}; expected at most {}", field, value, kMost));
  out = static_cast<Signed>(value);
  return OkStatus();
}

Status NarrowAll(std::string_view field,
                 const google::protobuf::RepeatedField<std::uint32_t>& values,
                 std::vector<std::int32_t>& out) {
  for (const std::uint32_t value : values)
    BUTTRESS_RETURN_IF_ERROR(Narrow(field, value, out.emplace_back()));
  return OkStatus();
}

Status CheckRate(std::string_view field, double value) {
  if (value >= 0 && value <= 1) return OkStatus();
  return InvalidArgument(fmt::format("{} = {}; expected a number in [0, 1]", field, value));
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
      NarrowAll("sampling.stop_token_ids", proto.stop_token_ids(), sampling.stop_token_ids));
  sampling.stop.assign(proto.stop().begin(), proto.stop().end());
  if (std::ranges::count(sampling.stop, "") > 0)
    return InvalidArgument("sampling.stop has an empty text; expected a character or more");
  return sampling;
}

v1::LeaseRef ToProto(const LeaseRef& ref) {
  v1::LeaseRef proto;
  proto.set_group_id(ref.group_id);
  proto.set_lease_epoch(ref.lease_epoch);
  return proto;
}

LeaseRef FromProto(const v1::LeaseRef& proto) { return {proto.group_id(), proto.lease_epoch()}; }

Result<Lease> FromProto(const v1::Lease& proto) {
  Lease lease;
  lease.ref = FromProto(proto.ref());
  lease.prompt_id = proto.prompt_id();
  lease.source = proto.source();
  lease.answer = proto.answer();
  lease.extra_json = proto.extra_json();
  if (proto.prompt_token_ids().empty()) return InvalidArgument("prompt_token_ids is empty");
  BUTTRESS_RETURN_IF_ERROR(
      NarrowAll("prompt_token_ids", proto.prompt_token_ids(), lease.prompt_token_ids));
  if (proto.completions() < 1 || proto.completions() > kMaxCompletions) {
    return InvalidArgument(
        fmt::format("completions = {}; expected 1 to {}", proto.completions(), kMaxCompletions));
  }
  lease.completions = static_cast<std::int32_t>(proto.completions());
  BUTTRESS_ASSIGN_OR_RETURN(lease.sampling, FromProto(proto.sampling()));
  BUTTRESS_ASSIGN_OR_RETURN(lease.min_version, FromProto(proto.min_version()));
  lease.exact_version = proto.exact_version();
  lease.ttl_ms = proto.ttl_ms();
  return lease;
}

v1::ReturnedLease ToProto(const ReturnedLease& returned) {
  v1::ReturnedLease proto;
  *proto.mutable_ref() = ToProto(returned.ref);
  proto.set_reason(static_cast<v1::ReturnReason>(returned.reason));
  return proto;
}

Result<ReturnedLease> FromProto(const v1::ReturnedLease& proto) {
  if (proto.reason() < v1::RETURN_REASON_DRAINING || !v1::ReturnReason_IsValid(proto.reason())) {
    return InvalidArgument(fmt::format("returned: reason {} is not one of coordinator.proto",
                                       static_cast<int>(proto.reason())));
  }
  return ReturnedLease{FromProto(proto.ref()), static_cast<ReturnReason>(proto.reason())};
}

v1::PromptHistory ToProto(const PromptHistory& history) {
  v1::PromptHistory proto;
  proto.set_correct(static_cast<std::uint64_t>(history.correct));
  proto.set_scored(static_cast<std::uint64_t>(history.scored));
  proto.set_recent_correct(history.recent_correct);
  proto.set_recent_scored(history.recent_scored);
  return proto;
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
  std::uint64_t rest = proto.groups();  // subtracted from, because a sum could wrap around
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
    return InvalidArgument(fmt::format(
        "the classes of collapse do not add up to collapse.groups = {}", counts.groups));
  }
  return counts;
}

namespace {

v1::DrawnTotals ToProto(const DrawnTotals& drawn) {
  v1::DrawnTotals proto;
  proto.set_completions(static_cast<std::uint64_t>(drawn.completions));
  proto.set_scorable(static_cast<std::uint64_t>(drawn.scorable));
  proto.set_tokens(static_cast<std::uint64_t>(drawn.tokens));
  proto.set_raw_reward(drawn.raw_reward);
  return proto;
}

Result<DrawnTotals> FromProto(const v1::DrawnTotals& proto) {
  DrawnTotals drawn;
  BUTTRESS_RETURN_IF_ERROR(Narrow("drawn.completions", proto.completions(), drawn.completions));
  BUTTRESS_RETURN_IF_ERROR(Narrow("drawn.scorable", proto.scorable(), drawn.scorable));
  BUTTRESS_RETURN_IF_ERROR(Narrow("drawn.tokens", proto.tokens(), drawn.tokens));
  drawn.raw_reward = proto.raw_reward();
  if (drawn.scorable <= drawn.completions && std::isfinite(drawn.raw_reward)) return drawn;
  return InvalidArgument(fmt::format(
      "drawn: {} scorable of {} completions with raw rewards of {} in all; expected no more "
      "scorable ones than completions, and a finite sum",
      drawn.scorable, drawn.completions, drawn.raw_reward));
}

v1::DrawControl ToProto(const DrawControl& control) {
  v1::DrawControl proto;
  proto.set_factor(control.factor);
  if (control.expected) proto.set_expected(*control.expected);
  proto.set_mixed(control.mixed);
  proto.set_replaced_tokens(static_cast<std::uint64_t>(control.replaced_tokens));
  return proto;
}

Result<DrawControl> FromProto(const v1::DrawControl& proto) {
  DrawControl control;
  BUTTRESS_RETURN_IF_ERROR(CheckRate("control.mixed", proto.mixed()));
  BUTTRESS_RETURN_IF_ERROR(
      Narrow("control.replaced_tokens", proto.replaced_tokens(), control.replaced_tokens));
  if (proto.has_expected()) {
    BUTTRESS_RETURN_IF_ERROR(CheckRate("control.expected", proto.expected()));
    control.expected = proto.expected();
  }
  control.factor = proto.factor();
  control.mixed = proto.mixed();
  if (std::isfinite(control.factor) && control.factor >= 1) return control;
  return InvalidArgument(
      fmt::format("control.factor = {}; expected a finite number of 1 or more", control.factor));
}

}  // namespace

v1::CollapseSnapshot ToProto(const CollapseSnapshot& snapshot) {
  v1::CollapseSnapshot proto;
  *proto.mutable_step() = ToProto(snapshot.step);
  *proto.mutable_cumulative() = ToProto(snapshot.cumulative);
  proto.set_acr_ema(snapshot.acr_ema);
  proto.set_expected_acr(snapshot.expected_acr);
  for (const SourceCollapse& source : snapshot.sources) {
    v1::SourceCollapse* out = proto.add_sources();
    out->set_source(source.source);
    *out->mutable_step() = ToProto(source.step);
    *out->mutable_recent() = ToProto(source.recent);
  }
  return proto;
}

Result<CollapseSnapshot> FromProto(const v1::CollapseSnapshot& proto) {
  CollapseSnapshot snapshot;
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.step, FromProto(proto.step()));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.cumulative, FromProto(proto.cumulative()));
  BUTTRESS_RETURN_IF_ERROR(CheckRate("collapse.acr_ema", proto.acr_ema()));
  BUTTRESS_RETURN_IF_ERROR(CheckRate("collapse.expected_acr", proto.expected_acr()));
  snapshot.acr_ema = proto.acr_ema();
  snapshot.expected_acr = proto.expected_acr();
  for (const v1::SourceCollapse& source : proto.sources()) {
    SourceCollapse& read = snapshot.sources.emplace_back();
    read.source = source.source();
    BUTTRESS_ASSIGN_OR_RETURN(read.step, FromProto(source.step()));
    BUTTRESS_ASSIGN_OR_RETURN(read.recent, FromProto(source.recent()));
  }
  return snapshot;
}

v1::PlanSummary ToProto(const CollapseSnapshot& collapse, const DrawnTotals& drawn,
                        const std::optional<DrawControl>& control) {
  v1::PlanSummary proto;
  *proto.mutable_collapse() = ToProto(collapse);
  *proto.mutable_drawn() = ToProto(drawn);
  if (control) *proto.mutable_control() = ToProto(*control);
  return proto;
}

Status FromProto(const v1::PlanSummary& proto, CollapseSnapshot& collapse, DrawnTotals& drawn,
                 std::optional<DrawControl>& control) {
  BUTTRESS_ASSIGN_OR_RETURN(collapse, FromProto(proto.collapse()));
  BUTTRESS_ASSIGN_OR_RETURN(drawn, FromProto(proto.drawn()));
  if (proto.has_control()) {
    BUTTRESS_ASSIGN_OR_RETURN(control, FromProto(proto.control()));
  }
  return OkStatus();
}

v1::Plan ToProto(const Plan& plan) {
  v1::Plan proto;
  proto.set_step(plan.step);
  for (const GroupHeadPtr& group : plan.groups) *proto.add_groups() = *group;
  *proto.mutable_collapse() = ToProto(plan.collapse);
  *proto.mutable_drawn() = ToProto(plan.drawn);
  if (plan.control) *proto.mutable_control() = ToProto(*plan.control);
  return proto;
}

Result<Plan> FromProto(v1::Plan&& proto) {
  Plan plan;
  plan.step = proto.step();
  BUTTRESS_ASSIGN_OR_RETURN(plan.collapse, FromProto(proto.collapse()));
  BUTTRESS_ASSIGN_OR_RETURN(plan.drawn, FromProto(proto.drawn()));
  if (proto.has_control()) {
    BUTTRESS_ASSIGN_OR_RETURN(plan.control, FromProto(proto.control()));
  }
  for (v1::GroupHead& group : *proto.mutable_groups())
    plan.groups.push_back(std::make_shared<const v1::GroupHead>(std::move(group)));
  BUTTRESS_RETURN_IF_ERROR(CheckPlan(plan));
  return plan;
}

}  // namespace buttress
