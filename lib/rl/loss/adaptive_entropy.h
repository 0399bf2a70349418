// The entropy coefficient as a controller of the policy's entropy (Skywork-OR1, arXiv 2505.22312,
// in the form of TRL). Pure.
#pragma once

#include <optional>

#include "lib/config/run_config.h"

namespace buttress {

// What the controller carries from one step to the next; empty before the first step.
struct EntropyControl {
  std::optional<double> coef;          // of the next step
  std::optional<double> last_entropy;  // nats per token, of the step before

  bool operator==(const EntropyControl&) const = default;
};

// The coefficient of the next step. Without a target it is entropy_coef. With a target it is the
// controller's if the entropy of the step before was at or below the target, else 0; and 0 at the
// first step, whose entropy is unknown.
double EntropyCoef(const EntropyControl& control, const AlgorithmConfig& algorithm);

// The state after a step of mean entropy `entropy`: the coefficient rises by adaptive_entropy.step
// at or below the target and falls by it above, within [min, max].
EntropyControl NextEntropyControl(const EntropyControl& control, const AlgorithmConfig& algorithm,
                                  double entropy);

}  // namespace buttress
