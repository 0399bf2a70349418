// The expected gradient of an estimator (docs/theory.md, section 2).
#pragma once

#include <optional>

#include "lib/config/run_config.h"

namespace buttress {

// The weight w(p) of the expected gradient w(p) grad p that groups of `size` completions give, with
// binary rewards, on-policy and before clipping, for a prompt with success rate `p` whose history
// is long and whose steps all collapse, so that every gate is open. It is a sum over the number of
// successes. Nullopt if the estimator refuses such a group, and for estimators whose statistics are
// over a whole batch. REQUIRES: 0 < p < 1, size >= 2.
std::optional<double> GradientWeight(double p, int size, const AlgorithmConfig& options);

}  // namespace buttress
