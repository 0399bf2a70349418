#include "lib/rl/loss/adaptive_entropy.h"

#include <algorithm>

namespace buttress {

double EntropyCoef(const EntropyControl& control, const AlgorithmConfig& algorithm) {
  if (algorithm.adaptive_entropy.target == 0) return algorithm.entropy_coef;
  if (!control.last_entropy || *control.last_entropy > algorithm.adaptive_entropy.target) return 0;
  return control.coef.value_or(algorithm.entropy_coef);
}

EntropyControl NextEntropyControl(const EntropyControl& control, const AlgorithmConfig& algorithm,
                                  double entropy) {
  const AdaptiveEntropyConfig& adaptive = algorithm.adaptive_entropy;
  if (adaptive.target == 0) return control;
  const double step = entropy <= adaptive.target ? adaptive.step : -adaptive.step;
  return {
      std::clamp(control.coef.value_or(algorithm.entropy_coef) + step, adaptive.min, adaptive.max),
      entropy};
}

}  // namespace buttress
