// What every group-relative estimator is made of: the statistics of one group, alone or together with virtual rewards.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

enum class StdKind : std::uint8_t { kSample, kPopulation, kNone };

// algorithm.std. kInvalidArgument with the choices for an unknown name.
Result<StdKind> ParseStdKind(std::string_view name);

// Over the rewards of one group, in double, two passes.
struct GroupStats {
  std::int64_t count = 0;
  double mean = 0;         // of a constant group exactly its reward
  double range = 0;        // max - min
  double sum_squares = 0;  // of the differences from the mean; of a constant group exactly 0

  // No two rewards differ, by range test: rounding must not pass for variance (algorithms.md 1.6). So is a group of one.
  bool constant() const;

  // sum_squares / (count - 1), or / count. REQUIRES: count >= 2.
  double sample_variance() const { return sum_squares / static_cast<double>(count - 1); }
  double population_variance() const { return sum_squares / static_cast<double>(count); }

  // What advantages are divided by: std + eps, or 1 for kNone. REQUIRES: count >= 2.
  double Divisor(StdKind kind, double eps) const;
};

// Pure.
GroupStats ComputeGroupStats(std::span<const double> rewards);

// advantages[i] = (rewards[i] - mean) / (std + eps), or rewards[i] - mean for kNone; exactly 0 for a constant group. Pure.
void NormalizeGroup(std::span<const double> rewards, StdKind kind, double eps, std::span<double> advantages);

// Rewards that nobody earned: `weight` of them, with this mean and population variance. They have no tokens and no gradient.
struct VirtualRewards {
  double weight = 0;
  double mean = 0;
  double variance = 0;
};

// advantages[i] = (rewards[i] - mean') / (std' + eps), or without the divisor for kNone, statistics over the group and its virtual rewards
// (algorithms.md 1.5, general form):
//   mean' = (n mean + w m) / (n + w)
//   sum'  = sum_squares + n (mean - mean')^2 + w (v + (m - mean')^2)
//   std'^2 = sum' / (n + w) for kPopulation, sum' / (n + w - 1) for kSample
// Exactly 0 if all of them are equal. Pure. REQUIRES: rewards.size() >= 1, w > 0.
void NormalizeAmongVirtual(std::span<const double> rewards, const VirtualRewards& virtual_rewards, StdKind kind, double eps,
                           std::span<double> advantages);

}  // namespace buttress
