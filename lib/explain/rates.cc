#include "lib/explain/rates.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/rl/collapse/difficulty.h"

namespace buttress {

void BetaFit::Add(std::int64_t correct, std::int64_t scored) {
  if (scored < 2) return;
  const auto k = static_cast<double>(correct);
  const auto n = static_cast<double>(scored);
  ++groups_;
  sum_ += k / n;
  sum_square_ += k * (k - 1) / (n * (n - 1));
}

double BetaFit::ExpectedAcr(std::int64_t n) const {
  if (groups_ == 0) return 0.0;
  const double m = mean();
  const double spread = m * (1 - m);
  // The variance of p over prompts.
  const double excess = sum_square_ / static_cast<double>(groups_) - m * m;
  // Every prompt is always or never solved, so no group size helps.
  if (spread <= 0 || excess >= spread) return 1.0;
  // Var[p] = m (1 - m) rho with rho = 1 / (a + b + 1). Where sampling noise explains the spread,
  // rho takes its smallest value: all prompts are equally hard.
  constexpr double kMinRho = 1e-6;
  const double rho = std::max(kMinRho, excess / spread);
  const double a = m * (1 - rho) / rho;
  const double b = (1 - m) * (1 - rho) / rho;
  double all_correct = 1.0;
  double all_wrong = 1.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(i);
    all_correct *= (a + x) / (a + b + x);
    all_wrong *= (b + x) / (a + b + x);
  }
  return std::min(1.0, all_correct + all_wrong);
}

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
