#include <vector>

#include "lib/rl/avspo.h"
#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"

namespace buttress {

Status AvspoOpposite(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  constexpr double kEps = 1e-6;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  out.gate.rate = input.collapse.step.acr();
  out.gate.threshold = options.avspo.acr_threshold;
  const double weight = ConfidenceWeight(out.gate.rate, options.avspo.acr_threshold, options.avspo.slope);
  out.gate.open = weight > 0;
  if (!out.gate.open) return OkStatus();
  std::vector<double> among_virtual;
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const CollapseClass collapse = out.collapse[k];
    if (collapse != CollapseClass::kAllCorrect && collapse != CollapseClass::kAllWrong) continue;
    const VirtualRewards opposite{.weight = 1, .mean = collapse == CollapseClass::kAllCorrect ? 0.0 : 1.0, .variance = 0};
    const auto advantages = GroupRows(std::span<double>(out.advantages), input.group_offsets, k);
    among_virtual.resize(advantages.size());
    NormalizeAmongVirtual(GroupRows(input.rewards, input.group_offsets, k), opposite, StdKind::kSample, kEps, among_virtual);
    for (std::size_t i = 0; i < advantages.size(); ++i) advantages[i] = Blend(weight, advantages[i], among_virtual[i]);
    out.decisions[k] = {true, weight, 1.0};
  }
  return OkStatus();
}

}  // namespace buttress
