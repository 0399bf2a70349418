// Rewards of several parts, written as a sum: "math + 0.2 * format - 0.5 * overlong". Signs and * stand between spaces, a weight is a
// number, a part without one has weight 1.
//
// The first part decides: the verdict's outcome, raw reward and answers are its own, so that shaping never changes what counts as collapse.
// The verdict's parts hold every value and weight; ShapedReward adds them up. A part that is unscorable makes the whole so, with its reason.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/verify/verifier.h"

namespace buttress {

struct SumTerm {
  double weight = 1;
  std::string name;
};

// One term for a name alone. kInvalidArgument: a weight that is no finite number or 0, a name that is empty or holds a space, a name twice.
Result<std::vector<SumTerm>> ParseSum(std::string_view text);

struct WeightedVerifier {
  SumTerm term;
  std::unique_ptr<Verifier> verifier;
};

std::unique_ptr<Verifier> MakeWeightedSum(std::vector<WeightedVerifier> parts);

}  // namespace buttress
