#include "lib/verify/audit/label_noise.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace buttress {
namespace {

constexpr double kNormal95 = 1.959963984540054;  // 97.5 % quantile of the standard normal
constexpr int kGrid = 16;                        // steps in the interval of a rate

// The centre and half width of Wilson's interval.
std::pair<double, double> Wilson(const ErrorRate& rate) {
  const auto n = static_cast<double>(rate.trials);
  const double z2 = kNormal95 * kNormal95;
  const double p = rate.rate();
  const double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormal95 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {centre, half};
}

}  // namespace

double ErrorRate::low() const {
  if (errors == 0) return 0;  // rounding could give another value
  const auto [centre, half] = Wilson(*this);
  return std::max(0.0, centre - half);
}

double ErrorRate::high() const {
  if (trials == errors) return 1;
  const auto [centre, half] = Wilson(*this);
  return std::min(1.0, centre + half);
}

double ExpectedAcr(const std::vector<LabelledGroup>& groups, double false_positive,
                   double false_negative) {
  double sum = 0;
  for (const LabelledGroup& group : groups)
    sum += std::pow(1 - false_negative, group.correct) * std::pow(false_positive, group.wrong) +
           std::pow(false_negative, group.correct) * std::pow(1 - false_positive, group.wrong);
  return groups.empty() ? 0 : sum / static_cast<double>(groups.size());
}

AcrRange ExpectedAcrRange(const std::vector<LabelledGroup>& groups, const ErrorRate& false_positive,
                          const ErrorRate& false_negative) {
  AcrRange range{1, 0};
  const auto at = [](const ErrorRate& rate, int step) {
    return rate.low() + (rate.high() - rate.low()) * step / kGrid;
  };
  for (int i = 0; i <= kGrid; ++i) {
    for (int j = 0; j <= kGrid; ++j) {
      const double acr = ExpectedAcr(groups, at(false_positive, i), at(false_negative, j));
      range = {std::min(range.low, acr), std::max(range.high, acr)};
    }
  }
  return range;
}

}  // namespace buttress
