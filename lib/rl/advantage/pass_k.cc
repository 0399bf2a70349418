// pass_k: only the single best completion of a group is rewarded, by its lead.
#include <algorithm>
#include <limits>

#include "lib/rl/advantage/estimators.h"
#include "lib/rl/statistics.h"

namespace buttress {

Status PassK(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = input.group_rewards(k);
    if (AllEqual(rewards)) continue;
    const auto best = static_cast<std::size_t>(std::ranges::max_element(rewards) - rewards.begin());
    double second = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      if (i != best) second = std::max(second, rewards[i]);
    }
    const double std_eps =
        StdPlusEps(SumSquares(rewards, Mean(rewards)), static_cast<double>(rewards.size()),
                   options.std, options.eps);
    out.group_advantages(input, k)[best] = (rewards[best] - second) / std_eps;
  }
  return OkStatus();
}

}  // namespace buttress
