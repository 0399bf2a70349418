// Rewards of several parts, written as a sum (lib/config/reward_text.h).
//
// The first part decides: the verdict's outcome, raw reward and answers are its own, so that
// shaping never changes what counts as collapse. The verdict's parts hold every value and weight;
// ShapedReward adds them up. A part that is unscorable makes the whole so, with its reason.
#pragma once

#include <memory>
#include <vector>

#include "lib/config/reward_text.h"
#include "lib/verify/verifier.h"

namespace buttress {

struct WeightedVerifier {
  SumTerm term;
  std::unique_ptr<Verifier> verifier;
};

std::unique_ptr<Verifier> MakeWeightedSum(std::vector<WeightedVerifier> parts);

}  // namespace buttress
