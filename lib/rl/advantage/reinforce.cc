// w_reinforce, reinforce_rej, raft: rewards without a baseline.
#include <fmt/core.h>

#include <algorithm>

#include "lib/rl/advantage/estimators.h"
#include "lib/rl/statistics.h"

namespace buttress {

Status WReinforce(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out) {
  for (std::size_t i = 0; i < out.advantages.size(); ++i) {
    const double reward = input.raw_rewards[i];
    if (input.outcomes.empty() && reward != 1 && reward != 0) {
      return InvalidArgument(
          fmt::format("w_reinforce needs outcomes, or rewards of 1 and 0; completion {} of the "
                      "batch has raw reward {} and no outcome",
                      i, reward));
    }
    const bool correct =
        input.outcomes.empty() ? reward == 1 : input.outcomes[i] == Outcome::kCorrect;
    out.advantages[i] = correct ? options.w_reinforce.positive_weight : -1.0;
  }
  return OkStatus();
}

Status ReinforceRej(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = input.group_rewards(k);
    if (!AllEqual(rewards)) std::ranges::copy(rewards, out.group_advantages(input, k).begin());
  }
  return OkStatus();
}

Status Raft(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t i = 0; i < out.advantages.size(); ++i)
    out.advantages[i] = std::max(input.rewards[i], 0.0);
  return OkStatus();
}

}  // namespace buttress
