// gdpo: each reward component is normalised in its group before the components are summed, so that none drowns another.
#include <string>
#include <vector>

#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"
#include "lib/rl/whiten.h"

namespace buttress {
namespace {

Result<std::vector<double>> Weights(const GdpoConfig& config, std::size_t components) {
  if (config.weights.empty()) return std::vector<double>(components, 1.0);
  if (config.weights.size() == components) return config.weights;
  return InvalidArgument("algorithm.gdpo.weights has " + std::to_string(config.weights.size()) + " weights, the reward has " +
                         std::to_string(components) + " components; give one weight each, or none");
}

// Adds weight * GRPO of component c to the advantages of group k.
void AddComponent(const AdvantageInput& input, std::size_t k, std::size_t c, double weight, StdKind kind, double eps,
                  std::vector<double>& column, std::vector<double>& normalized, std::span<double> advantages) {
  const std::size_t components = input.components.size() / input.rewards.size();
  const auto begin = static_cast<std::size_t>(input.group_offsets[k]);
  column.resize(advantages.size());
  normalized.resize(advantages.size());
  for (std::size_t i = 0; i < column.size(); ++i) column[i] = input.components[(begin + i) * components + c];
  NormalizeGroup(column, kind, eps, normalized);
  for (std::size_t i = 0; i < column.size(); ++i) advantages[i] += weight * normalized[i];
}

}  // namespace

Status Gdpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  if (input.rewards.empty()) return OkStatus();
  if (input.components.empty()) return InvalidArgument("gdpo needs the components of the reward, which has one part only; use grpo");
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<double> weights, Weights(options.gdpo, input.components.size() / input.rewards.size()));
  std::vector<double> column;
  std::vector<double> normalized;
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const auto advantages = GroupRows(std::span<double>(out.advantages), input.group_offsets, k);
    for (std::size_t c = 0; c < weights.size(); ++c) {
      AddComponent(input, k, c, weights[c], kind, options.eps, column, normalized, advantages);
    }
  }
  WhitenTokens(input.lengths, StdKind::kSample, out.advantages);
  return OkStatus();
}

}  // namespace buttress
