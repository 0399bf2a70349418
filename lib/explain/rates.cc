#include "lib/explain/rates.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/rl/collapse/difficulty.h"

namespace buttress {

void PairedGain::Add(double happened, double base, double other) {
  const double gain =
      (happened - base) * (happened - base) - (happened - other) * (happened - other);
  ++count_;
  sum_ += gain;
  sum_square_ += gain * gain;
}

bool PairedGain::significant() const {
  if (count_ < 2) return false;
  constexpr double kNormal95 = 1.959963984540054;
  const double mean = sum_ / count_;
  const double variance = std::max(0.0, sum_square_ / count_ - mean * mean);
  return mean > kNormal95 * std::sqrt(variance / count_);
}

Excess ExcessOf(double observed, double expected, std::int64_t groups, std::int64_t fitted) {
  Excess excess{.difference = observed - expected};
  if (groups <= 0 || fitted <= 0) return excess;
  const double distance = std::abs(excess.difference) - kFitBias;
  const double variance = std::clamp(expected * (1 - expected), 0.0, 0.25) *
                          (1 / static_cast<double>(groups) + 1 / static_cast<double>(fitted));
  if (distance <= 0) return excess;
  excess.probability = std::erfc(distance / std::sqrt(variance) / std::numbers::sqrt2);
  return excess;
}

std::string DescribeExcess(const Excess& excess) {
  // Smaller numbers are beyond what the normal approximation can tell.
  constexpr double kLeast = 1e-9;
  constexpr double kAsPredicted = 0.95;  // what is nearer is not worth a number
  if (excess.probability >= kAsPredicted) return "as difficulty predicts";
  const std::string share = excess.probability < kLeast
                                ? "hardly one run in 1e9 differs"
                                : fmt::format("{:.2g} % of runs differ", 100 * excess.probability);
  if (!excess.significant()) return "within chance (" + share + " as much)";
  return fmt::format("{} what difficulty explains ({} as much by chance)",
                     excess.difference > 0 ? "above" : "below", share);
}

}  // namespace buttress
