// Conversion between the values of this folder and the messages of proto/buttress/v1.
//
// ToProto never fails. FromProto returns kInvalidArgument, with the name of the field, for a number
// that the value cannot hold or that makes no sense on its own; check.h checks whole plans.
// FromProto(ToProto(x)) == x. All functions are pure.
#pragma once

#include <string>
#include <string_view>

#include "buttress/v1/coordinator.pb.h"
#include "buttress/v1/experience.pb.h"
#include "lib/base/report/status.h"
#include "lib/experience/check.h"
#include "lib/experience/collapse.h"
#include "lib/experience/lease.h"
#include "lib/experience/plan.h"
#include "lib/experience/types.h"

namespace buttress {

v1::PolicyVersion ToProto(const PolicyVersion& version);
v1::SamplingParams ToProto(const SamplingParams& sampling);
v1::LeaseRef ToProto(const LeaseRef& ref);
v1::ReturnedLease ToProto(const ReturnedLease& returned);
v1::PromptHistory ToProto(const PromptHistory& history);
v1::CollapseCounts ToProto(const CollapseCounts& counts);
v1::CollapseSnapshot ToProto(const CollapseSnapshot& snapshot);
v1::Plan ToProto(const Plan& plan);
// What the ledger keeps of a plan next to the ids of its groups.
v1::PlanSummary ToProto(const CollapseSnapshot& collapse, const DrawnTotals& drawn,
                        const std::optional<DrawControl>& control);

// The digest has 32 bytes or none.
Result<PolicyVersion> FromProto(const v1::PolicyVersion& proto);
// The temperature is finite and not negative, top_p is in (0, 1], max_tokens is at least 1.
Result<SamplingParams> FromProto(const v1::SamplingParams& proto);
LeaseRef FromProto(const v1::LeaseRef& proto);
// The prompt has tokens, and 1 to kMaxCompletions completions are asked for.
Result<Lease> FromProto(const v1::Lease& proto);
// The reason is one of ReturnReason and not kUnspecified.
Result<ReturnedLease> FromProto(const v1::ReturnedLease& proto);
// The classes add up to `groups`.
Result<CollapseCounts> FromProto(const v1::CollapseCounts& proto);
// The rates are in [0, 1].
Result<CollapseSnapshot> FromProto(const v1::CollapseSnapshot& proto);
// The plan passes CheckPlan.
Result<Plan> FromProto(v1::Plan&& proto);
Status FromProto(const v1::PlanSummary& proto, CollapseSnapshot& collapse, DrawnTotals& drawn,
                 std::optional<DrawControl>& control);

}  // namespace buttress
