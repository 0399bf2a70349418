// The check of a group that arrives from another process.
#pragma once

#include <cstdint>
#include <limits>

#include "lib/base/status.h"
#include "lib/experience/types.h"

namespace buttress {

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

}  // namespace buttress
