// opo: rewards relative to the group's mean per token, the baseline of least variance when gradients of tokens are orthogonal.
#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"

namespace buttress {

Status Opo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    if (ComputeGroupStats(rewards).constant()) continue;
    const auto lengths = GroupRows(input.lengths, input.group_offsets, k);
    double tokens = 0;
    double weighted = 0;
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      tokens += lengths[i];
      weighted += lengths[i] * rewards[i];
    }
    if (tokens == 0) continue;
    const double baseline = weighted / tokens;
    const auto advantages = GroupRows(std::span<double>(out.advantages), input.group_offsets, k);
    for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = rewards[i] - baseline;
  }
  return OkStatus();
}

}  // namespace buttress
