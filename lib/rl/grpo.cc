#include "lib/rl/grpo.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "lib/rl/group_offsets.h"

namespace buttress {
namespace {

void NormalizeBatch(const AdvantageInput& input, StdKind kind, double eps, AdvantageOutput& out) {
  for (std::size_t k = 0; k + 1 < input.group_offsets.size(); ++k) {
    NormalizeGroup(GroupRows(input.rewards, input.group_offsets, k), GroupRows(input.outcomes, input.group_offsets, k), kind, eps,
                   GroupRows(std::span<double>(out.advantages), input.group_offsets, k));
  }
}

}  // namespace

Result<StdKind> ParseStdKind(std::string_view name) {
  if (name == "sample") return StdKind::kSample;
  if (name == "population") return StdKind::kPopulation;
  if (name == "none") return StdKind::kNone;
  return InvalidArgument("algorithm.std = '" + std::string(name) + "' is not known; choose one of: sample, population, none");
}

double GroupStats::Divisor(StdKind kind) const {
  switch (kind) {
    case StdKind::kSample: return std::sqrt(sample_variance());
    case StdKind::kPopulation: return std::sqrt(population_variance());
    case StdKind::kNone: break;
  }
  return 1.0;
}

GroupStats ComputeGroupStats(std::span<const double> values, std::span<const Outcome> outcomes) {
  GroupStats stats;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!IsScorable(values[i], outcomes, i)) continue;
    ++stats.scorable;
    sum += values[i];
    lowest = std::min(lowest, values[i]);
    highest = std::max(highest, values[i]);
  }
  if (stats.scorable == 0) return stats;
  stats.mean = sum / static_cast<double>(stats.scorable);
  stats.range = highest - lowest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!IsScorable(values[i], outcomes, i)) continue;
    const double difference = values[i] - stats.mean;
    stats.sum_squares += difference * difference;
  }
  return stats;
}

void NormalizeGroup(std::span<const double> rewards, std::span<const Outcome> outcomes, StdKind kind, double eps,
                    std::span<double> advantages) {
  const GroupStats stats = ComputeGroupStats(rewards, outcomes);
  const bool constant = stats.scorable < 2 || stats.range <= kCollapseTolerance;
  const double divisor = constant || kind == StdKind::kNone ? 1.0 : stats.Divisor(kind) + eps;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    advantages[i] = constant || !IsScorable(rewards[i], outcomes, i) ? 0.0 : (rewards[i] - stats.mean) / divisor;
  }
}

Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  NormalizeBatch(input, kind, options.eps, out);
  return OkStatus();
}

Status DrGrpo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  NormalizeBatch(input, StdKind::kNone, 0.0, out);
  return OkStatus();
}

}  // namespace buttress
