#include "lib/rl/advantage/avspo.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {

Status AvspoNoise(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out) {
  AlgorithmConfig real = options;
  real.std = "sample";
  real.eps = 1e-8;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, real, out));
  const AvspoConfig& avspo = options.avspo;
  const double rate = VarianceThresholdAcr(input.raw_rewards, input.outcomes, input.group_offsets,
                                           avspo.variance_threshold);
  const double weight = ConfidenceWeight(rate, avspo.acr_threshold, avspo.slope);
  out.gate = GateReading{rate, avspo.acr_threshold, weight > 0};
  if (weight == 0) return OkStatus();

  AdvantageOutput noisy;
  noisy.advantages.resize(input.rewards.size());
  FillNormals(input.key, noisy.advantages);
  for (std::size_t i = 0; i < input.rewards.size(); ++i)
    noisy.advantages[i] = input.rewards[i] + avspo.noise_std * noisy.advantages[i];
  AdvantageInput noisy_input = input;
  noisy_input.rewards = noisy.advantages;  // normalised in place, a group at a time
  BUTTRESS_RETURN_IF_ERROR(Grpo(noisy_input, real, noisy));
  for (std::size_t i = 0; i < input.rewards.size(); ++i) {
    out.advantages[i] = (1.0 - weight) * out.advantages[i] + weight * noisy.advantages[i];
  }
  for (std::size_t k = 0; k < input.groups(); ++k) {
    if (out.collapse[k] == CollapseClass::kUnscorable) continue;
    out.decisions[k] = {true, weight,
                        static_cast<double>(input.group_offsets[k + 1] - input.group_offsets[k])};
  }
  return OkStatus();
}

}  // namespace buttress
