// What travels and what is stored: our value types to and from proto/buttress/v1, and the check of
// everything that arrives.
//
// ToProto never fails. FromProto refuses numbers that our types cannot hold (kInvalidArgument, with
// the field's name); CheckGroup then refuses groups that make no sense. FromProto(ToProto(x)) == x.
// All functions are pure.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "buttress/v1/coordinator.pb.h"
#include "buttress/v1/experience.pb.h"
#include "lib/base/status.h"
#include "lib/rl/acr.h"
#include "lib/rl/types.h"

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

// Bounds of what CheckGroup lets through; the defaults only keep sizes sane, the lease and the
// model know tighter ones.
struct GroupLimits {
  std::int32_t max_completions = 4096;
  std::int32_t max_prompt_tokens = 1 << 20;
  std::int32_t max_completion_tokens = 1 << 20;
  std::int32_t vocab_size = std::numeric_limits<std::int32_t>::max();  // token ids are below it
};

// A log-probability may exceed 0 by rounding, but not by more than this.
inline constexpr float kMaxLogprob = 1e-3F;

// Everything that a group from outside must hold: ids, source and worker not empty and valid UTF-8;
//   1 <= n <= max_completions; indices are 0 ... n - 1 in any order; as many log-probs as tokens,
//   each finite and <= kMaxLogprob; token ids in [0, vocab_size); segments start at 0, rise, stay
//   inside [0, T), versions never become older; no tokens, no segments; trained spans not empty, in
//   order, disjoint, inside [0, T); finish reason and outcome set; an unscorable completion says
//   why, a scorable one has tokens and finite rewards and components; scorable completions have the
//   same components in the same order.
// kInvalidArgument: "completion 3: 12 log-probs for 14 tokens; ...".
Status CheckGroup(const Group& group, const GroupLimits& limits = {});

// The bytes of a submission and of the ledger's payload. Equal groups give equal bytes.
std::string EncodeGroup(const Group& group);

// Parses, converts and checks. Any bytes give a group that CheckGroup accepts, or kInvalidArgument.
Result<Group> DecodeGroup(std::string_view bytes, const GroupLimits& limits = {});

}  // namespace buttress
