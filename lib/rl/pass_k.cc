// pass_k: only the group's single best completion is rewarded, by its lead.
#include <algorithm>
#include <limits>

#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"

namespace buttress {

Status PassK(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    const GroupStats stats = ComputeGroupStats(rewards);
    if (stats.constant()) continue;
    const auto best = static_cast<std::size_t>(std::ranges::max_element(rewards) - rewards.begin());
    double second = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < rewards.size(); ++i) second = i == best ? second : std::max(second, rewards[i]);
    GroupRows(std::span<double>(out.advantages), input.group_offsets, k)[best] =
        (rewards[best] - second) / stats.Divisor(kind, options.eps);
  }
  return OkStatus();
}

}  // namespace buttress
