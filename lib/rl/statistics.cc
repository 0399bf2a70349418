#include "lib/rl/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/rl/collapse/acr.h"

namespace buttress {

bool AllEqual(std::span<const double> values) {
  if (values.empty()) return true;
  const auto [low, high] = std::ranges::minmax(values);
  return EqualRewards(low, high);
}

double Mean(std::span<const double> values) {
  if (AllEqual(values)) return values[0];
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double SumSquares(std::span<const double> values, double mean) {
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

double SampleVariance(std::span<const double> values) {
  return SumSquares(values, Mean(values)) / static_cast<double>(values.size() - 1);
}

double StdPlusEps(double sum_squares, double count, StdKind kind, double eps) {
  if (kind == StdKind::kNone) return 1.0;
  return std::sqrt(sum_squares / (kind == StdKind::kSample ? count - 1 : count)) + eps;
}

void WhitenTokens(std::span<const std::int32_t> lengths, StdKind kind, std::span<double> values) {
  constexpr double kVarianceEps = 1e-8;
  double tokens = 0;
  double sum = 0;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (lengths[i] == 0) continue;
    tokens += lengths[i];
    sum += lengths[i] * values[i];
    lowest = std::min(lowest, values[i]);
    highest = std::max(highest, values[i]);
  }
  if (lowest >= highest) return std::ranges::fill(values, 0.0), void();
  const double mean = sum / tokens;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    squares += lengths[i] * (values[i] - mean) * (values[i] - mean);
  const double variance = squares / (kind == StdKind::kSample ? tokens - 1 : tokens);
  const double divisor = kind == StdKind::kNone ? 1.0 : std::sqrt(variance + kVarianceEps);
  for (double& value : values) value = (value - mean) / divisor;
}

}  // namespace buttress
