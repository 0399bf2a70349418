// gdpo: each reward component is normalised in its group before the components are summed.
#include <fmt/core.h>

#include <vector>

#include "lib/rl/advantage/estimators.h"
#include "lib/rl/statistics.h"

namespace buttress {

Status Gdpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const std::size_t rows = input.rewards.size();
  if (rows == 0) return OkStatus();
  if (input.components.empty())
    return InvalidArgument("gdpo needs the components of the reward, which has one part; use grpo");
  const std::size_t components = input.components.size() / rows;
  const std::vector<double>& weights = options.gdpo.weights;
  if (!weights.empty() && weights.size() != components) {
    return InvalidArgument(
        fmt::format("algorithm.gdpo.weights has {} weights, the reward has {} components; give one "
                    "weight each, or none",
                    weights.size(), components));
  }
  std::vector<double> column(rows);
  AdvantageInput of_component = input;
  of_component.rewards = column;
  AdvantageOutput normalised;
  for (std::size_t c = 0; c < components; ++c) {
    for (std::size_t i = 0; i < rows; ++i) column[i] = input.components[i * components + c];
    normalised.advantages.assign(rows, 0.0);
    BUTTRESS_RETURN_IF_ERROR(Grpo(of_component, options, normalised));
    const double weight = weights.empty() ? 1.0 : weights[c];
    for (std::size_t i = 0; i < rows; ++i) out.advantages[i] += weight * normalised.advantages[i];
  }
  WhitenTokens(input.lengths, StdKind::kSample, out.advantages);
  return OkStatus();
}

}  // namespace buttress
