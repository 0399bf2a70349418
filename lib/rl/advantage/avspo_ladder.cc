#include <algorithm>
#include <cmath>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/avspo.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

double LadderSize(std::size_t group_size, double acr, double alpha) {
  const auto g = static_cast<double>(group_size);
  return std::max(1.0, std::min(g, std::ceil(g * std::pow(acr, alpha))));
}

// K rewards top (1 - (k - 1) / K): mean top (K + 1) / (2 K), population variance top^2 (K^2 - 1) /
// (12 K^2).
VirtualRewards Ladder(double top, double size) {
  return {.weight = size,
          .mean = top * (size + 1) / (2 * size),
          .variance = top * top * (size * size - 1) / (12 * size * size)};
}

// The ladder of k / K for all-wrong groups, its mirror image 1 - k / K for all-correct ones.
VirtualRewards SymmetricLadder(bool all_correct, double size) {
  VirtualRewards rewards = Ladder(1.0, size);
  if (all_correct) rewards.mean = 1.0 - rewards.mean;
  return rewards;
}

bool Repairs(CollapseClass collapse, bool symmetric) {
  if (collapse == CollapseClass::kAllCorrect || collapse == CollapseClass::kAllWrong) return true;
  return collapse == CollapseClass::kOtherConstant && !symmetric;
}

double Mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

// The threshold after a step whose gate used `threshold`.
GateState NextGate(const GateState& before, double threshold, double acr, double reward_mean,
                   const AvspoLadderConfig& config) {
  double direction = 0;
  if (before.reward_mean)
    direction = reward_mean > *before.reward_mean ? 1 : reward_mean < *before.reward_mean ? -1 : 0;
  threshold += config.threshold_rate * direction * (acr - threshold);
  return {std::clamp(threshold, config.threshold_min, config.threshold_max), reward_mean};
}

}  // namespace

Status AvspoLadder(const AdvantageInput& input, const AlgorithmConfig& options,
                   AdvantageOutput& out) {
  const AvspoLadderConfig& config = options.avspo.ladder;
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const double acr = input.collapse.step.acr();
  const double threshold = input.gate.threshold.value_or(config.threshold);
  const bool open = acr > threshold && config.strength > 0;
  out.gate = GateReading{acr, threshold, open};
  out.next_gate = NextGate(input.gate, threshold, acr, Mean(input.raw_rewards), config);
  if (!open) return OkStatus();
  for (std::size_t k = 0; k < input.groups(); ++k) {
    if (!Repairs(out.collapse[k], config.symmetric)) continue;
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    const double size = LadderSize(rewards.size(), acr, config.alpha);
    const double highest = *std::ranges::max_element(rewards);
    const VirtualRewards ladder =
        config.symmetric ? SymmetricLadder(out.collapse[k] == CollapseClass::kAllCorrect, size)
                         : Ladder(highest > 0 ? highest : config.anchor, size);
    InjectVirtual(input, k, ladder, kind, options.eps, config.strength, out);
  }
  return OkStatus();
}

}  // namespace buttress
