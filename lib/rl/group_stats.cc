#include "lib/rl/group_stats.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/rl/acr.h"

namespace buttress {
namespace {

double DivisorOf(double sum_squares, double count, StdKind kind, double eps) {
  if (kind == StdKind::kNone) return 1.0;
  return std::sqrt(sum_squares / (kind == StdKind::kSample ? count - 1 : count)) + eps;
}

}  // namespace

Result<StdKind> ParseStdKind(std::string_view name) {
  if (name == "sample") return StdKind::kSample;
  if (name == "population") return StdKind::kPopulation;
  if (name == "none") return StdKind::kNone;
  return InvalidArgument("algorithm.std = '" + std::string(name) + "' is not known; choose one of: sample, population, none");
}

bool GroupStats::constant() const { return count < 2 || range <= kCollapseTolerance; }

double GroupStats::Divisor(StdKind kind, double eps) const {
  return DivisorOf(sum_squares, static_cast<double>(count), kind, eps);
}

GroupStats ComputeGroupStats(std::span<const double> rewards) {
  GroupStats stats;
  if (rewards.empty()) return stats;
  double lowest = rewards[0];
  double highest = rewards[0];
  double sum = 0;
  for (const double reward : rewards) {
    sum += reward;
    lowest = std::min(lowest, reward);
    highest = std::max(highest, reward);
  }
  stats.count = static_cast<std::int64_t>(rewards.size());
  stats.range = highest - lowest;
  if (stats.constant()) {
    stats.mean = lowest;
    return stats;
  }
  stats.mean = sum / static_cast<double>(rewards.size());
  for (const double reward : rewards) stats.sum_squares += (reward - stats.mean) * (reward - stats.mean);
  return stats;
}

void NormalizeGroup(std::span<const double> rewards, StdKind kind, double eps, std::span<double> advantages) {
  const GroupStats stats = ComputeGroupStats(rewards);
  if (stats.constant()) {
    std::ranges::fill(advantages, 0.0);
    return;
  }
  const double divisor = stats.Divisor(kind, eps);
  for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = (rewards[i] - stats.mean) / divisor;
}

void NormalizeAmongVirtual(std::span<const double> rewards, const VirtualRewards& virtual_rewards, StdKind kind, double eps,
                           std::span<double> advantages) {
  const GroupStats stats = ComputeGroupStats(rewards);
  const auto n = static_cast<double>(stats.count);
  const auto& [w, m, v] = virtual_rewards;
  if (stats.range <= kCollapseTolerance && v == 0 && stats.mean == m) {
    std::ranges::fill(advantages, 0.0);
    return;
  }
  const double mean = (n * stats.mean + w * m) / (n + w);
  const double sum_squares = stats.sum_squares + n * (stats.mean - mean) * (stats.mean - mean) + w * (v + (m - mean) * (m - mean));
  const double divisor = DivisorOf(sum_squares, n + w, kind, eps);
  for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = (rewards[i] - mean) / divisor;
}

}  // namespace buttress
