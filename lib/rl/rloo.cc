// rloo: rewards relative to the mean of the group's others.
#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"

namespace buttress {

Status Rloo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    const GroupStats stats = ComputeGroupStats(rewards);
    if (stats.constant()) continue;
    const auto n = static_cast<double>(stats.count);
    const double factor = n / (n - 1);
    const auto advantages = GroupRows(std::span<double>(out.advantages), input.group_offsets, k);
    for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = factor * (rewards[i] - stats.mean);
  }
  return OkStatus();
}

}  // namespace buttress
