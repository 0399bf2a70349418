#include <algorithm>

#include "lib/base/report/check.h"
#include "lib/rl/advantage/estimators.h"

namespace buttress {

Status RlZvp(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  out.entropy_scale.assign(out.advantages.size(), 0.0);
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto scales = GroupRows(std::span<double>(out.entropy_scale), input.group_offsets, k);
    if (input.classes[k] == CollapseClass::kAllCorrect)
      std::ranges::fill(scales, options.rl_zvp.alpha);
    if (input.classes[k] == CollapseClass::kAllWrong)
      std::ranges::fill(scales, -options.rl_zvp.alpha);
  }
  return OkStatus();
}

void TokenAdvantages(double advantage, double entropy_scale, std::span<const double> entropies,
                     std::span<double> advantages) {
  BUTTRESS_CHECK(entropies.size() == advantages.size(), "one advantage per token");
  const double highest = entropies.empty() ? 0.0 : *std::ranges::max_element(entropies);
  for (std::size_t t = 0; t < entropies.size(); ++t) {
    const double nats = entropy_scale < 0 ? highest - entropies[t] : entropies[t];
    advantages[t] = advantage + entropy_scale * nats;
  }
}

}  // namespace buttress
