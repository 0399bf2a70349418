// Quantiles and effective size of importance weights, from sums that add up over micro-batches and
// ranks. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace buttress {

// The histogram of log weights. Bin edges are equal steps of asinh(log w / kWeightScale): near w =
// 1 a bin is 1.7e-4 wide in log w, far away 8 % of log w. The number of bins is odd, so that w = 1
// is the middle of a bin.
inline constexpr std::size_t kWeightBins = 255;
inline constexpr double kWeightScale = 1e-3;
inline constexpr double kMaxLogWeight = 20.0;

// asinh(kMaxLogWeight / kWeightScale): the bins cover +- this.
double WeightBinRange();

// The weight in the middle of bin `index`.
double WeightOfBin(std::size_t index);

// The q-quantile (0 <= q <= 1) of the weights counted in `counts` [kWeightBins]: the middle of the
// bin that holds the quantile. 0 if nothing was counted.
double WeightQuantile(std::span<const double> counts, double q);

// The effective share of n weighted tokens or completions, (sum w)^2 / (n sum w^2), in (0, 1]. 0 if
// there are none.
double EffectiveShare(double count, double sum, double sum_of_squares);

}  // namespace buttress
