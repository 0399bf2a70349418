#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/virtual_rewards.h"

namespace buttress {

Status Ngrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const VirtualRewards best{.weight = 1, .mean = options.ngrpo.max_reward, .variance = 0};
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = input.group_rewards(k);
    if (rewards.size() < 2) continue;
    const auto [mean, divisor] = AmongVirtual(rewards, best, options.std, options.eps);
    const auto advantages = out.group_advantages(input, k);
    for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = (rewards[i] - mean) / divisor;
    out.decisions[k] = {true, 1.0, 1.0};
  }
  return OkStatus();
}

}  // namespace buttress
