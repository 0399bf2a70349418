// rloo: rewards relative to the mean of the group's others.
#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

BUTTRESS_KERNEL void LeaveOneOut(std::span<const double> all_rewards,
                                 std::span<const std::int32_t> group_offsets,
                                 std::span<double> all_advantages) {
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto rewards = GroupRows(all_rewards, group_offsets, k);
    if (rewards.size() < 2) continue;
    const auto n = static_cast<double>(rewards.size());
    Apply({ComputeGroupMean(rewards).mean, n / (n - 1)}, rewards,
          GroupRows(all_advantages, group_offsets, k));
  }
}

}  // namespace

Status Rloo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  LeaveOneOut(input.rewards, input.group_offsets, out.advantages);
  return OkStatus();
}

}  // namespace buttress
