#include "lib/rl/whiten.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/rl/acr.h"

namespace buttress {
namespace {

constexpr double kVarianceEps = 1e-8;

}  // namespace

void WhitenTokens(std::span<const std::int32_t> lengths, StdKind kind, std::span<double> values) {
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
  if (tokens == 0 || highest - lowest <= kCollapseTolerance) {
    std::ranges::fill(values, 0.0);
    return;
  }
  const double mean = sum / tokens;
  double sum_squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum_squares += lengths[i] * (values[i] - mean) * (values[i] - mean);
  const double variance = sum_squares / (kind == StdKind::kSample ? tokens - 1 : tokens);
  const double scale = kind == StdKind::kNone ? 1.0 : 1.0 / std::sqrt(variance + kVarianceEps);
  for (double& value : values) value = (value - mean) * scale;
}

}  // namespace buttress
