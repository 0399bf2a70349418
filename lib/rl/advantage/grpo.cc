// grpo, dr_grpo, rloo, opo: rewards relative to a baseline of their group.
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/statistics.h"

namespace buttress {

Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = input.group_rewards(k);
    if (AllEqual(rewards)) continue;
    const auto advantages = out.group_advantages(input, k);
    const double mean = Mean(rewards);
    const double std_eps = StdPlusEps(
        SumSquares(rewards, mean), static_cast<double>(rewards.size()), options.std, options.eps);
    for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = (rewards[i] - mean) / std_eps;
  }
  return OkStatus();
}

Status DrGrpo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = input.group_rewards(k);
    if (AllEqual(rewards)) continue;
    const auto advantages = out.group_advantages(input, k);
    const double mean = Mean(rewards);
    for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = rewards[i] - mean;
  }
  return OkStatus();
}

Status Rloo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = input.group_rewards(k);
    if (AllEqual(rewards)) continue;
    const auto advantages = out.group_advantages(input, k);
    const double mean = Mean(rewards);
    const auto n = static_cast<double>(rewards.size());
    for (std::size_t i = 0; i < rewards.size(); ++i)
      advantages[i] = n / (n - 1) * (rewards[i] - mean);
  }
  return OkStatus();
}

Status Opo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = input.group_rewards(k);
    const auto lengths = GroupRows(input.lengths, input.group_offsets, k);
    double tokens = 0;
    double token_rewards = 0;
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      tokens += lengths[i];
      token_rewards += lengths[i] * rewards[i];
    }
    // The weighted mean of equal rewards may differ from their value by rounding.
    if (AllEqual(rewards) || tokens == 0) continue;
    const auto advantages = out.group_advantages(input, k);
    for (std::size_t i = 0; i < rewards.size(); ++i)
      advantages[i] = rewards[i] - token_rewards / tokens;
  }
  return OkStatus();
}

}  // namespace buttress
