// w_reinforce, reinforce_rej, raft: rewards without a baseline.
#include <algorithm>
#include <string>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

BUTTRESS_KERNEL void ByOutcome(std::span<const Outcome> outcomes, double correct,
                               std::span<double> advantages) {
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    advantages[i] = outcomes[i] == Outcome::kCorrect ? correct : -1.0;
}

BUTTRESS_KERNEL void CopyMixed(std::span<const double> all_rewards,
                               std::span<const std::int32_t> group_offsets,
                               std::span<double> all_advantages) {
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto rewards = GroupRows(all_rewards, group_offsets, k);
    if (!AllEqual(rewards))
      Map(
          rewards, [](const auto& x) { return x; },
          GroupRows(all_advantages, group_offsets, k).data());
  }
}

BUTTRESS_KERNEL void CopyPositive(std::span<const double> rewards, std::span<double> advantages) {
  Map(
      rewards, [](const auto& x) { return x > 0.0 ? x : x - x; }, advantages.data());
}

}  // namespace

Status WReinforce(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out) {
  const double correct = options.w_reinforce.positive_weight;
  if (!input.outcomes.empty()) {
    ByOutcome(input.outcomes, correct, out.advantages);
    return OkStatus();
  }
  for (std::size_t i = 0; i < out.advantages.size(); ++i) {
    const double reward = input.raw_rewards[i];
    if (reward != 1 && reward != 0) {
      return InvalidArgument(
          "w_reinforce tells right from wrong by outcomes, or by rewards 1 and 0; completion " +
          std::to_string(i) + " of the batch has raw reward " + std::to_string(reward) +
          " and no outcome");
    }
    out.advantages[i] = reward == 1 ? correct : -1.0;
  }
  return OkStatus();
}

Status ReinforceRej(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  CopyMixed(input.rewards, input.group_offsets, out.advantages);
  return OkStatus();
}

Status Raft(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  CopyPositive(input.rewards, out.advantages);
  return OkStatus();
}

}  // namespace buttress
