// gdpo: each reward component is normalised in its group before the components are summed, so that
// none drowns another.
#include <string>
#include <vector>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"
#include "lib/rl/advantage/whiten.h"

namespace buttress {
namespace {

Result<std::vector<double>> Weights(const GdpoConfig& config, std::size_t components) {
  if (config.weights.empty()) return std::vector<double>(components, 1.0);
  if (config.weights.size() == components) return config.weights;
  return InvalidArgument("algorithm.gdpo.weights has " + std::to_string(config.weights.size()) +
                         " weights, the reward has " + std::to_string(components) +
                         " components; give one weight each, or none");
}

// column[i] = components[i, c]; a whole batch at a time, because what was just stored in pieces is
// slow to load in lanes.
BUTTRESS_KERNEL void CopyColumn(std::span<const double> components, std::size_t c,
                                std::span<double> column) {
  const std::size_t width = components.size() / column.size();
  for (std::size_t i = 0; i < column.size(); ++i) column[i] = components[i * width + c];
}

// Adds weight * GRPO of one component.
BUTTRESS_KERNEL void AddComponent(std::span<const double> column,
                                  std::span<const std::int32_t> group_offsets, double weight,
                                  StdKind kind, double eps, std::span<double> all_advantages) {
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto of_group = GroupRows(column, group_offsets, k);
    if (of_group.empty()) continue;
    const Affine normalized = Normalized(of_group, kind, eps);
    double* const advantages = GroupRows(all_advantages, group_offsets, k).data();
    for (std::size_t i = 0; i < of_group.size(); ++i)
      advantages[i] += weight * ((of_group[i] - normalized.mean) * normalized.factor);
  }
}

}  // namespace

Status Gdpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  if (input.rewards.empty()) return OkStatus();
  if (input.components.empty())
    return InvalidArgument(
        "gdpo needs the components of the reward, which has one part only; use grpo");
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<double> weights,
                            Weights(options.gdpo, input.components.size() / input.rewards.size()));
  std::vector<double> column(input.rewards.size());
  for (std::size_t c = 0; c < weights.size(); ++c) {
    CopyColumn(input.components, c, column);
    AddComponent(column, input.group_offsets, weights[c], kind, options.eps, out.advantages);
  }
  WhitenTokens(input.lengths, StdKind::kSample, out.advantages);
  return OkStatus();
}

}  // namespace buttress
