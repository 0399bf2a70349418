#include "lib/rl/advantage/whiten.h"

#include <algorithm>
#include <cmath>

#include "lib/rl/advantage/lanes.h"

namespace buttress {
namespace {

constexpr double kVarianceEps = 1e-8;

bool AllEqualWithTokens(std::span<const std::int32_t> lengths, std::span<const double> values) {
  std::size_t first = 0;
  while (first < values.size() && lengths[first] == 0) ++first;
  for (std::size_t i = first; i < values.size(); ++i) {
    if (lengths[i] != 0 && values[i] != values[first]) return false;
  }
  return true;
}

BUTTRESS_KERNEL TokenSums BatchSums(std::span<const double> values,
                                    std::span<const std::int32_t> lengths) {
  return SumTokens(values, lengths, [](const auto& x) { return x; });
}

BUTTRESS_KERNEL double SumSquares(std::span<const double> values,
                                  std::span<const std::int32_t> lengths, double mean) {
  return SumTokens(values, lengths, [mean](const auto& x) { return (x - mean) * (x - mean); })
      .weighted;
}

BUTTRESS_KERNEL void Scale(double mean, double scale, std::span<double> values) {
  Map(
      values, [=](const auto& x) { return (x - mean) * scale; }, values.data());
}

}  // namespace

void WhitenTokens(std::span<const std::int32_t> lengths, StdKind kind, std::span<double> values) {
  if (AllEqualWithTokens(lengths, values)) {
    std::ranges::fill(values, 0.0);
    return;
  }
  const TokenSums sums = BatchSums(values, lengths);
  const double mean = sums.weighted / sums.tokens;
  const double variance = SumSquares(values, lengths, mean) /
                          (kind == StdKind::kSample ? sums.tokens - 1 : sums.tokens);
  Scale(mean, kind == StdKind::kNone ? 1.0 : 1.0 / std::sqrt(variance + kVarianceEps), values);
}

}  // namespace buttress
