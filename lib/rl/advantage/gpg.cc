// gpg: rewards relative to their group's mean, scaled up for the groups that teach nothing.
#include <algorithm>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

constexpr double kShareEps = 1e-5;

BUTTRESS_KERNEL double VerlFactor(std::span<const double> rewards) {
  std::size_t nonzero = 0;
  for (const double reward : rewards) nonzero += reward != 0 ? 1 : 0;
  // Without a reward there is no advantage to scale.
  return nonzero == 0 ? 0.0 : static_cast<double>(rewards.size()) / static_cast<double>(nonzero);
}

BUTTRESS_KERNEL double OfficialFactor(std::span<const double> all_rewards,
                                      std::span<const std::int32_t> group_offsets) {
  std::size_t groups = 0;
  std::size_t mixed = 0;
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto rewards = GroupRows(all_rewards, group_offsets, k);
    groups += rewards.size() >= 2 ? 1 : 0;
    mixed += AllEqual(rewards) ? 0 : 1;
  }
  return groups == 0 ? 0.0
                     : 1.0 / (static_cast<double>(mixed) / static_cast<double>(groups) + kShareEps);
}

BUTTRESS_KERNEL void CenterGroups(std::span<const double> all_rewards,
                                  std::span<const std::int32_t> group_offsets, double factor,
                                  std::span<double> all_advantages) {
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto rewards = GroupRows(all_rewards, group_offsets, k);
    if (rewards.empty()) continue;
    Apply({ComputeGroupMean(rewards).mean, factor}, rewards,
          GroupRows(all_advantages, group_offsets, k));
  }
}

}  // namespace

Status Gpg(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const std::string& form = options.gpg.form;
  if (form != "verl" && form != "official") {
    return InvalidArgument("algorithm.gpg.form = '" + form +
                           "' is not known; choose one of: verl, official");
  }
  CenterGroups(input.rewards, input.group_offsets,
               form == "verl" ? VerlFactor(input.rewards)
                              : OfficialFactor(input.rewards, input.group_offsets),
               out.advantages);
  return OkStatus();
}

}  // namespace buttress
