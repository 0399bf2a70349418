// ngrpo: every group is compared with one virtual best completion, so an all-wrong group is pushed
// away from what it did.
#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

BUTTRESS_KERNEL void NormalizeAmongBest(const AdvantageInput& input, double best, StdKind kind,
                                        double eps, AdvantageOutput& out) {
  const VirtualRewards virtual_rewards{.weight = 1, .mean = best, .variance = 0};
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    if (rewards.size() < 2) continue;
    Apply(AmongVirtual(rewards, virtual_rewards, kind, eps), rewards,
          GroupRows(std::span<double>(out.advantages), input.group_offsets, k));
    out.decisions[k] = {true, 1.0, 1.0};
  }
}

}  // namespace

Status Ngrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  NormalizeAmongBest(input, options.ngrpo.max_reward, kind, options.eps, out);
  return OkStatus();
}

}  // namespace buttress
