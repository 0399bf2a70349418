// reinforce_pp, reinforce_pp_baseline: rewards relative to the whole batch, each token counting
// once.
#include <algorithm>

#include "lib/rl/advantage/estimators.h"
#include "lib/rl/statistics.h"

namespace buttress {

Status ReinforcePp(const AdvantageInput& input, const AlgorithmConfig& options,
                   AdvantageOutput& out) {
  std::ranges::copy(input.rewards, out.advantages.begin());
  WhitenTokens(input.lengths, options.std, out.advantages);
  return OkStatus();
}

Status ReinforcePpBaseline(const AdvantageInput& input, const AlgorithmConfig& options,
                           AdvantageOutput& out) {
  BUTTRESS_RETURN_IF_ERROR(DrGrpo(input, options, out));
  WhitenTokens(input.lengths, options.std, out.advantages);
  return OkStatus();
}

}  // namespace buttress
