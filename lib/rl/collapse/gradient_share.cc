#include "lib/rl/collapse/gradient_share.h"

#include <algorithm>
#include <cmath>

namespace buttress {
namespace {

// The sum of `mass` that a constant group counts in. `rewards` and `lengths` are the group's;
// completions without trained tokens do not matter.
double& SourceOf(std::span<const double> rewards, std::span<const std::int32_t> lengths,
                 const VirtualDecision& decision, GradientMass& mass) {
  if (decision.injected) return mass.virtual_samples;
  const double* common = nullptr;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (lengths[i] == 0) continue;
    if (common != nullptr && rewards[i] != *common) return mass.shaping;
    common = &rewards[i];
  }
  return mass.estimator;
}

}  // namespace

GradientMass PolicyGradientMass(std::span<const double> advantages, std::span<const double> rewards,
                                std::span<const double> token_weights,
                                std::span<const std::int32_t> lengths,
                                std::span<const std::int32_t> group_offsets,
                                std::span<const CollapseClass> classes,
                                std::span<const VirtualDecision> decisions) {
  GradientMass mass;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const auto begin = static_cast<std::size_t>(group_offsets[k]);
    const std::size_t count = static_cast<std::size_t>(group_offsets[k + 1]) - begin;
    double of_group = 0;
    for (std::size_t i = begin; i < begin + count; ++i)
      of_group += std::abs(advantages[i]) * token_weights[i] * lengths[i];
    mass.all += of_group;
    if (of_group == 0 || !IsConstant(classes[k])) continue;
    SourceOf(rewards.subspan(begin, count), lengths.subspan(begin, count), decisions[k], mass) +=
        of_group;
  }
  return mass;
}

}  // namespace buttress
