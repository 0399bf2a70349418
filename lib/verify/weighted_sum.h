// Rewards of several parts, written as a sum (lib/config/reward_text.h).
//
// The first part determines the outcome, raw reward and answers of the verdict, so that shaping
// never changes which groups count as collapsed. Verdict::parts holds the reward and weight of
// every part, and ShapedReward adds them up. An unscorable part makes the whole verdict unscorable.
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
