// Virtual rewards: values that join the statistics of a group although no completion earned them.
// They have no tokens and therefore no gradient.
#pragma once

#include <span>

#include "lib/config/estimator_config.h"

namespace buttress {

// `weight` virtual rewards with this mean and population variance.
struct VirtualRewards {
  double weight = 0;
  double mean = 0;
  double variance = 0;
};

// advantage = (reward - mean) / divisor.
struct Normalizer {
  double mean = 0;
  double divisor = 1;
};

// Statistics over n rewards with mean r and sum of squares S together with w virtual rewards of
// mean m and variance v (docs/theory.md, section 4):
//   mean'  = (n r + w m) / (n + w)
//   sum'   = S + n (r - mean')^2 + w (v + (m - mean')^2)
//   std'^2 = sum' / (n + w) for kPopulation, sum' / (n + w - 1) for kSample
// The divisor is std' + eps, or 1 for kNone and where all values are equal. Pure. REQUIRES: rewards
// is not empty, w > 0.
Normalizer AmongVirtual(std::span<const double> rewards, const VirtualRewards& virtual_rewards,
                        StdKind kind, double eps);

}  // namespace buttress
