// Codec of leases and plans.
#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "lib/experience/codec.h"
#include "lib/experience/narrow.h"

namespace buttress {
namespace {

Status CheckRate(std::string_view field, double value) {
  if (value >= 0 && value <= 1) return OkStatus();
  return InvalidArgument(fmt::format("{} = {}; expected a number in [0, 1]", field, value));
}

}  // namespace

v1::LeaseRef ToProto(const LeaseRef& ref) {
  v1::LeaseRef proto;
  proto.set_group_id(ref.group_id);
  proto.set_lease_epoch(ref.lease_epoch);
  return proto;
}

LeaseRef FromProto(const v1::LeaseRef& proto) { return {proto.group_id(), proto.lease_epoch()}; }

v1::Lease ToProto(const Lease& lease) {
  v1::Lease proto;
  *proto.mutable_ref() = ToProto(lease.ref);
  proto.set_prompt_id(lease.prompt_id);
  proto.set_source(lease.source);
  proto.mutable_prompt_token_ids()->Add(lease.prompt_token_ids.begin(),
                                        lease.prompt_token_ids.end());
  proto.set_answer(lease.answer);
  proto.set_extra_json(lease.extra_json);
  proto.set_completions(static_cast<std::uint32_t>(lease.completions));
  *proto.mutable_sampling() = ToProto(lease.sampling);
  *proto.mutable_min_version() = ToProto(lease.min_version);
  proto.set_exact_version(lease.exact_version);
  proto.set_ttl_ms(static_cast<std::uint32_t>(lease.ttl_ms));
  return proto;
}

Result<Lease> FromProto(const v1::Lease& proto) {
  Lease lease;
  lease.ref = FromProto(proto.ref());
  lease.prompt_id = proto.prompt_id();
  lease.source = proto.source();
  lease.answer = proto.answer();
  lease.extra_json = proto.extra_json();
  if (proto.prompt_token_ids().empty()) return InvalidArgument("prompt_token_ids is empty");
  BUTTRESS_RETURN_IF_ERROR(
      Narrow("prompt_token_ids", proto.prompt_token_ids(), lease.prompt_token_ids));
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

v1::PlanSummary ToProto(const CollapseSnapshot& collapse, const DrawnTotals& drawn) {
  v1::PlanSummary proto;
  *proto.mutable_collapse() = ToProto(collapse);
  *proto.mutable_drawn() = ToProto(drawn);
  return proto;
}

Status FromProto(const v1::PlanSummary& proto, CollapseSnapshot& collapse, DrawnTotals& drawn) {
  BUTTRESS_ASSIGN_OR_RETURN(collapse, FromProto(proto.collapse()));
  BUTTRESS_ASSIGN_OR_RETURN(drawn, FromProto(proto.drawn()));
  return OkStatus();
}

v1::Plan ToProto(const Plan& plan) {
  v1::Plan proto;
  proto.set_step(plan.step);
  for (const GroupHeadPtr& group : plan.groups) *proto.add_groups() = *group;
  *proto.mutable_collapse() = ToProto(plan.collapse);
  *proto.mutable_drawn() = ToProto(plan.drawn);
  return proto;
}

Result<Plan> FromProto(v1::Plan&& proto) {
  Plan plan;
  plan.step = proto.step();
  BUTTRESS_ASSIGN_OR_RETURN(plan.collapse, FromProto(proto.collapse()));
  BUTTRESS_ASSIGN_OR_RETURN(plan.drawn, FromProto(proto.drawn()));
  for (v1::GroupHead& group : *proto.mutable_groups())
    plan.groups.push_back(std::make_shared<const v1::GroupHead>(std::move(group)));
  BUTTRESS_RETURN_IF_ERROR(CheckPlan(plan));
  return plan;
}

}  // namespace buttress
