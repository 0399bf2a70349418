// What travels and what is stored: our value types to and from proto/buttress/v1, and the check of
// everything that arrives.
//
// ToProto never fails. FromProto refuses numbers that our types cannot hold (kInvalidArgument, with
// the field's name); CheckGroup then refuses groups that make no sense. FromProto(ToProto(x)) == x.
// All functions are pure.
#pragma once

#include <string>
#include <string_view>

#include "buttress/v1/coordinator.pb.h"
#include "buttress/v1/experience.pb.h"
#include "lib/base/status.h"
#include "lib/experience/check.h"
#include "lib/experience/collapse.h"
#include "lib/experience/types.h"

namespace buttress {

v1::PolicyVersion ToProto(const PolicyVersion& version);
v1::SamplingParams ToProto(const SamplingParams& sampling);
v1::Completion ToProto(const Completion& completion);
v1::Group ToProto(const Group& group);
v1::PromptHistory ToProto(const PromptHistory& history);
v1::CollapseCounts ToProto(const CollapseCounts& counts);
v1::CollapseSnapshot ToProto(const CollapseSnapshot& snapshot);

// The digest has 32 bytes or none.
Result<PolicyVersion> FromProto(const v1::PolicyVersion& proto);
// temperature finite and >= 0, top_p in (0, 1], max_tokens >= 1.
Result<SamplingParams> FromProto(const v1::SamplingParams& proto);
Result<Completion> FromProto(const v1::Completion& proto);
Result<Group> FromProto(const v1::Group& proto);
// correct <= scored.
Result<PromptHistory> FromProto(const v1::PromptHistory& proto);
// The classes add up to `groups`.
Result<CollapseCounts> FromProto(const v1::CollapseCounts& proto);
// Rates in [0, 1].
Result<CollapseSnapshot> FromProto(const v1::CollapseSnapshot& proto);

// The bytes of a submission and of the ledger's payload. Equal groups give equal bytes.
std::string EncodeGroup(const Group& group);

// Parses, converts and checks. Any bytes give a group that CheckGroup accepts, or kInvalidArgument.
Result<Group> DecodeGroup(std::string_view bytes, const GroupLimits& limits = {});

}  // namespace buttress
