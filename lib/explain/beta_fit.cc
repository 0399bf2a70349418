#include "lib/explain/beta_fit.h"

#include <algorithm>
#include <cmath>

namespace buttress {

void BetaFit::Add(std::int64_t correct, std::int64_t scored) {
  if (scored < 2) return;
  const auto k = static_cast<double>(correct);
  const auto n = static_cast<double>(scored);
  ++groups_;
  sum_ += k / n;
  sum_square_ += k * (k - 1) / (n * (n - 1));
}

double BetaFit::mean() const { return groups_ == 0 ? 0.0 : sum_ / static_cast<double>(groups_); }

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

}  // namespace buttress
