// Checks of what arrives from another process.
#pragma once

#include <cstdint>
#include <limits>

#include "lib/base/report/status.h"
#include "lib/experience/lease.h"
#include "lib/experience/plan.h"
#include "lib/experience/types.h"

namespace buttress {

namespace v1 {
class Group;
}

// What CheckGroup accepts at most. The defaults only keep sizes sane; the coordinator knows the
// bounds of the run.
struct GroupLimits {
  std::int32_t max_completions = kMaxCompletions;  // episodes where they have branches
  std::int32_t max_branches = 1 << 12;             // of an episode; 0: there are no episodes
  std::int32_t max_prompt_tokens = 1 << 20;
  std::int32_t max_completion_tokens = 1 << 20;
  std::int32_t vocab_size = std::numeric_limits<std::int32_t>::max();  // token ids are below it
};

// A log-probability may exceed 0 by rounding, but not by more than this.
inline constexpr float kMaxLogprob = 1e-3F;

// A token of a smaller probability, e^-1000, is never sampled.
inline constexpr float kMinLogprob = -1000;

// Returns OK if
//   - prompt id, source and worker id are valid UTF-8, not empty, and at most 4096 bytes long;
//   - there are 1 to max_completions completions, or episodes of 1 to max_branches completions that
//     stand side by side, and every column has the length that they, their lengths and the reward
//     components give it;
//   - each token has a log-prob from kMinLogprob to kMaxLogprob;
//   - token ids are in [0, vocab_size);
//   - versions are in order; segments cover all tokens if there are several, name each version, and
//     versions never become older within a completion that is no episode;
//   - trained spans are not empty, in order, disjoint, and inside the tokens, and give the trained
//     lengths;
//   - finish reason and outcome are set; an unscorable completion has a reason and rewards of 0, a
//     scorable one has tokens, and rewards and components within kMaxReward;
//   - the components, if there are any, give the rewards: the raw reward is one of them, the reward
//     their weighted sum;
//   - the branches of an episode have its verdict and end; its turns are in order, disjoint and
//     inside the tokens, their rewards add up to its raw reward, and nothing else is trained or has
//     a log-prob;
//   - texts and the list of components are within the bounds of lib/base/text/reward_bounds.h.
// Otherwise kInvalidArgument, such as "completion 3: logprobs[5] = nan; expected ...". It does not
// look at what the coordinator fills.
Status CheckGroup(const v1::Group& group, const GroupLimits& limits = {});

// Returns OK if every head has an entry for each completion in every column, finite numbers in
// range and known enumerations, and a source that the snapshot counts. Otherwise kInvalidArgument,
// which names the group.
Status CheckPlan(const Plan& plan);

}  // namespace buttress
