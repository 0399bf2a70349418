// reinforce_pp, reinforce_pp_baseline: rewards relative to the whole batch, each token counting
// once.
#include <algorithm>

#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/whiten.h"

namespace buttress {

Status ReinforcePp(const AdvantageInput& input, const AlgorithmConfig& options,
                   AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  std::ranges::copy(input.rewards, out.advantages.begin());
  WhitenTokens(input.lengths, kind, out.advantages);
  return OkStatus();
}

Status ReinforcePpBaseline(const AdvantageInput& input, const AlgorithmConfig& options,
                           AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  BUTTRESS_RETURN_IF_ERROR(DrGrpo(input, options, out));
  WhitenTokens(input.lengths, kind, out.advantages);
  return OkStatus();
}

}  // namespace buttress
