#include <vector>

#include "lib/rl/avspo.h"
#include "lib/rl/collapse_metrics.h"
#include "lib/rl/estimators.h"

namespace buttress {

Status AvspoNoise(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  AlgorithmConfig real = options;
  real.std = "sample";
  real.eps = 1e-8;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, real, out));
  const AvspoConfig& avspo = options.avspo;
  out.gate.rate = VarianceThresholdAcr(input.raw_rewards, input.outcomes, input.group_offsets, avspo.variance_threshold);
  out.gate.threshold = avspo.acr_threshold;
  const double weight = ConfidenceWeight(out.gate.rate, avspo.acr_threshold, avspo.slope);
  out.gate.open = weight > 0;
  if (!out.gate.open) return OkStatus();

  std::vector<double> noisy(input.rewards.size());
  FillNormals(input.key, noisy);
  for (std::size_t row = 0; row < noisy.size(); ++row) noisy[row] = input.rewards[row] + avspo.noise_std * noisy[row];
  AdvantageInput noisy_input = input;
  noisy_input.rewards = noisy;
  AdvantageOutput noisy_out;
  noisy_out.advantages.resize(noisy.size());
  BUTTRESS_RETURN_IF_ERROR(Grpo(noisy_input, real, noisy_out));
  for (std::size_t row = 0; row < noisy.size(); ++row) {
    out.advantages[row] = (1.0 - weight) * out.advantages[row] + weight * noisy_out.advantages[row];
  }
  for (std::size_t k = 0; k < input.groups(); ++k) {
    if (out.collapse[k] == CollapseClass::kUnscorable) continue;
    out.decisions[k] = {true, weight, static_cast<double>(input.group_offsets[k + 1] - input.group_offsets[k])};
  }
  return OkStatus();
}

}  // namespace buttress
