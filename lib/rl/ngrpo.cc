// ngrpo: every group is compared with one virtual best completion, so an all-wrong group is pushed away from what it did.
#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"

namespace buttress {

Status Ngrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  const VirtualRewards best{.weight = 1, .mean = options.ngrpo.max_reward, .variance = 0};
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    if (rewards.size() < 2) continue;
    NormalizeAmongVirtual(rewards, best, kind, options.eps, GroupRows(std::span<double>(out.advantages), input.group_offsets, k));
    out.decisions[k] = {true, 1.0, 1.0};
  }
  return OkStatus();
}

}  // namespace buttress
