// grpo, dr_grpo: rewards relative to their group's mean.
#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

BUTTRESS_KERNEL void NormalizeGroups(std::span<const double> all_rewards,
                                     std::span<const std::int32_t> group_offsets, StdKind kind,
                                     double eps, std::span<double> all_advantages) {
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto rewards = GroupRows(all_rewards, group_offsets, k);
    if (rewards.empty()) continue;
    Apply(Normalized(rewards, kind, eps), rewards, GroupRows(all_advantages, group_offsets, k));
  }
}

}  // namespace

Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  NormalizeGroups(input.rewards, input.group_offsets, kind, options.eps, out.advantages);
  return OkStatus();
}

Status DrGrpo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  NormalizeGroups(input.rewards, input.group_offsets, StdKind::kNone, 0.0, out.advantages);
  return OkStatus();
}

}  // namespace buttress
