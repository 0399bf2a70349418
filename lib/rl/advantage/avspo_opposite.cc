#include "lib/rl/advantage/avspo.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {

Status AvspoOpposite(const AdvantageInput& input, const AlgorithmConfig& options,
                     AdvantageOutput& out) {
  constexpr double kEps = 1e-6;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const double rate = input.collapse.step.acr();
  const double weight = ConfidenceWeight(rate, options.avspo.acr_threshold, options.avspo.slope);
  out.gate = GateReading{rate, options.avspo.acr_threshold, weight > 0};
  if (weight == 0) return OkStatus();
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const CollapseClass collapse = out.collapse[k];
    if (collapse != CollapseClass::kAllCorrect && collapse != CollapseClass::kAllWrong) continue;
    const VirtualRewards opposite{
        .weight = 1, .mean = collapse == CollapseClass::kAllCorrect ? 0.0 : 1.0, .variance = 0};
    InjectVirtual(input, k, opposite, StdKind::kSample, kEps, weight, out);
  }
  return OkStatus();
}

}  // namespace buttress
