#include "lib/rl/statistics.h"

#include <algorithm>
#include <cmath>

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

}  // namespace buttress
