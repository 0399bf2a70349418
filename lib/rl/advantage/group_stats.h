// What every group-relative estimator is made of: the statistics of one group, alone or together
// with virtual rewards. Inline, for kernels over groups (lanes.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/status.h"
#include "lib/rl/advantage/lanes.h"

namespace buttress {

enum class StdKind : std::uint8_t { kSample, kPopulation, kNone };

// algorithm.std. kInvalidArgument with the choices for an unknown name.
Result<StdKind> ParseStdKind(std::string_view name);

// Over the rewards of one group, in double.
struct GroupMean {
  bool constant =
      // no two rewards differ, by comparison: rounding must not pass for variance (algorithms.md
      // 1.6)
      true;
  double mean = 0;  // of a constant group exactly its reward
};

// Whether a group is constant is random to the processor, so what follows does not branch on it.
// Pure. REQUIRES: rewards is not empty.
BUTTRESS_INLINE GroupMean ComputeGroupMean(std::span<const double> rewards) {
  const auto [sum, equal] = SumAndCompare(rewards);
  return {equal, Select(equal, rewards[0], sum / static_cast<double>(rewards.size()))};
}

// Of the differences from the mean; of a constant group exactly 0. Pure.
BUTTRESS_INLINE double SumSquares(std::span<const double> rewards, double mean) {
  return SumOf(rewards, [mean](const auto& x) { return (x - mean) * (x - mean); });
}

// Pure. REQUIRES: rewards.size() >= 2.
BUTTRESS_INLINE double SampleVariance(std::span<const double> rewards) {
  return SumSquares(rewards, ComputeGroupMean(rewards).mean) /
         static_cast<double>(rewards.size() - 1);
}

// What advantages are divided by: the standard deviation of `count` values (a weight, if virtual
// ones are among them) plus eps; 1 for kNone.
BUTTRESS_INLINE double Divisor(double sum_squares, double count, StdKind kind, double eps) {
  if (kind == StdKind::kNone) return 1.0;
  return std::sqrt(sum_squares / (kind == StdKind::kSample ? count - 1 : count)) + eps;
}

// What a group's advantages are of its rewards: (reward - mean) * factor.
struct Affine {
  double mean = 0;
  double factor = 0;
};

// Pure.
BUTTRESS_INLINE void Apply(const Affine& affine, std::span<const double> rewards,
                           std::span<double> advantages) {
  const auto [mean, factor] = affine;
  Map(
      rewards, [=](const auto& x) { return (x - mean) * factor; }, advantages.data());
}

// advantage = (reward - mean) / (std + eps), or reward - mean for kNone. Factor 0 for a constant
// group, whose advantages are then exactly 0, so is that of a group of one. Pure. REQUIRES: rewards
// is not empty.
BUTTRESS_INLINE Affine Normalized(std::span<const double> rewards, StdKind kind, double eps) {
  const GroupMean group = ComputeGroupMean(rewards);
  if (kind == StdKind::kNone) return {group.mean, 1.0};
  const double divisor =
      Divisor(SumSquares(rewards, group.mean), static_cast<double>(rewards.size()), kind, eps);
  return {group.mean, Select(group.constant, 0.0, 1.0 / divisor)};
}

// Rewards that nobody earned: `weight` of them, with this mean and population variance. They have
// no tokens and no gradient.
struct VirtualRewards {
  double weight = 0;
  double mean = 0;
  double variance = 0;
};

// advantage = (reward - mean') / (std' + eps), or without the divisor for kNone, statistics over
// the group and its virtual rewards (algorithms.md 1.5, general form), S the group's sum of
// squares:
//   mean' = (n mean + w m) / (n + w)
//   sum'  = S + n (mean - mean')^2 + w (v + (m - mean')^2)
//   std'^2 = sum' / (n + w) for kPopulation, sum' / (n + w - 1) for kSample
// Factor 0 if all of them are equal. Pure. REQUIRES: rewards.size() >= 1, w > 0.
BUTTRESS_INLINE Affine AmongVirtual(std::span<const double> rewards,
                                    const VirtualRewards& virtual_rewards, StdKind kind,
                                    double eps) {
  const auto n = static_cast<double>(rewards.size());
  const auto& [w, m, v] = virtual_rewards;
  const GroupMean group = ComputeGroupMean(rewards);
  if (group.constant && v == 0 && group.mean == m) return {m, 0.0};
  const double mean = (n * group.mean + w * m) / (n + w);
  const double sum_squares = SumSquares(rewards, group.mean) +
                             n * (group.mean - mean) * (group.mean - mean) +
                             w * (v + (m - mean) * (m - mean));
  return {mean, 1.0 / Divisor(sum_squares, n + w, kind, eps)};
}

}  // namespace buttress
