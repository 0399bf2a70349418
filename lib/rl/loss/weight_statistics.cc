#include "lib/rl/loss/weight_statistics.h"

#include <cmath>
#include <numeric>

#include "lib/base/report/check.h"

namespace buttress {

double WeightBinRange() { return std::asinh(kMaxLogWeight / kWeightScale); }

double WeightOfBin(std::size_t index) {
  const double middle = (static_cast<double>(index) + 0.5) / static_cast<double>(kWeightBins);
  return std::exp(kWeightScale * std::sinh((2 * middle - 1) * WeightBinRange()));
}

double WeightQuantile(std::span<const double> counts, double q) {
  BUTTRESS_CHECK(counts.size() == kWeightBins && q >= 0 && q <= 1,
                 "a quantile of a histogram of weights");
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (total <= 0) return 0;
  double seen = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] <= 0) continue;
    seen += counts[i];
    last = i;
    if (seen >= q * total) break;
  }
  return WeightOfBin(last);
}

double EffectiveShare(double count, double sum, double sum_of_squares) {
  return count > 0 && sum_of_squares > 0 ? sum * sum / (count * sum_of_squares) : 0.0;
}

}  // namespace buttress
