#include "lib/verify/audit/label_noise.h"

#include <algorithm>
#include <cmath>

#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

constexpr int kGrid = 16;  // steps in the interval of a rate

ShareInterval IntervalOf(const ErrorRate& rate) {
  return WilsonInterval(rate.rate(), static_cast<double>(rate.trials));
}

}  // namespace

double ErrorRate::low() const { return IntervalOf(*this).low; }

double ErrorRate::high() const { return IntervalOf(*this).high; }

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
