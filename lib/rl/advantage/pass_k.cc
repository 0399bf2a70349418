// pass_k: only the group's single best completion is rewarded, by its lead.
#include <limits>
#include <utility>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

// A group's best completion, the first of equals, and how far it leads.
struct Leader {
  std::size_t index = 0;
  double lead = 0;
};

BUTTRESS_INLINE Leader FindLeader(std::span<const double> rewards) {
  Leader leader;
  double best = rewards[0];
  double second = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < rewards.size(); ++i) {
    if (rewards[i] > best) {
      second = std::exchange(best, rewards[i]);
      leader.index = i;
    } else {
      second = std::max(second, rewards[i]);
    }
  }
  leader.lead = best - second;
  return leader;
}

BUTTRESS_KERNEL void RewardLeaders(std::span<const double> all_rewards,
                                   std::span<const std::int32_t> group_offsets, StdKind kind,
                                   double eps, std::span<double> all_advantages) {
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto rewards = GroupRows(all_rewards, group_offsets, k);
    if (AllEqual(rewards)) continue;
    const Leader leader = FindLeader(rewards);
    if (leader.lead == 0) continue;
    GroupRows(all_advantages, group_offsets, k)[leader.index] =
        leader.lead * Normalized(rewards, kind, eps).factor;
  }
}

}  // namespace

Status PassK(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  RewardLeaders(input.rewards, input.group_offsets, kind, options.eps, out.advantages);
  return OkStatus();
}

}  // namespace buttress
