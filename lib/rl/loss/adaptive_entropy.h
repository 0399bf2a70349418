// The entropy coefficient as a controller (Skywork-OR1, arXiv 2505.22312, as TRL has it).
// Torch-free, pure.
#pragma once

#include <optional>

#include "lib/config/run_config.h"

namespace buttress {

// What the controller remembers from step to step. Empty before the first step.
struct EntropyControl {
  std::optional<double> coef;          // of the next step
  std::optional<double> last_entropy;  // nats a token, of the step before

  bool operator==(const EntropyControl&) const = default;
};

// Coefficient of the step: entropy_coef without a target; with one, the controller's after a step
// whose entropy was at or below it, else 0. 0 at the first step, whose entropy nobody knows yet.
double EntropyCoef(const EntropyControl& control, const AlgorithmConfig& algorithm);

// After a step of mean entropy `entropy`: coef + step at or below the target, coef - step above,
// within [min, max].
EntropyControl NextEntropyControl(const EntropyControl& control, const AlgorithmConfig& algorithm,
                                  double entropy);

}  // namespace buttress
