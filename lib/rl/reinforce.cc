// w_reinforce, reinforce_rej, raft: rewards without a baseline.
#include <algorithm>
#include <string>

#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"

namespace buttress {

Status WReinforce(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  for (std::size_t i = 0; i < out.advantages.size(); ++i) {
    const double reward = input.raw_rewards[i];
    if (input.outcomes.empty() && reward != 1 && reward != 0) {
      return InvalidArgument("w_reinforce tells right from wrong by outcomes, or by rewards 1 and 0; completion " + std::to_string(i) +
                             " of the batch has raw reward " + std::to_string(reward) + " and no outcome");
    }
    const bool correct = input.outcomes.empty() ? reward == 1 : input.outcomes[i] == Outcome::kCorrect;
    out.advantages[i] = correct ? options.w_reinforce.positive_weight : -1.0;
  }
  return OkStatus();
}

Status ReinforceRej(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    if (ComputeGroupStats(rewards).constant()) continue;
    std::ranges::copy(rewards, GroupRows(std::span<double>(out.advantages), input.group_offsets, k).begin());
  }
  return OkStatus();
}

Status Raft(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  std::ranges::transform(input.rewards, out.advantages.begin(), [](double reward) { return std::max(reward, 0.0); });
  return OkStatus();
}

}  // namespace buttress
