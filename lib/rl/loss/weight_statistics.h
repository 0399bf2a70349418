// Quantiles and effective size of importance weights, from sums that add up over micro-batches and
// ranks. Torch-free, pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace buttress {

// A histogram of log weights. Bin edges are equal steps of asinh(log w / kWeightScale): near w = 1
// a bin is 1.7e-4 wide in log w, far away 8 % of log w. An odd number, so that w = 1 is the middle
// of a bin.
inline constexpr std::size_t kWeightBins = 255;
inline constexpr double kWeightScale = 1e-3;
inline constexpr double kMaxLogWeight = 20.0;

// asinh(kMaxLogWeight / kWeightScale): the bins cover +- this.
double WeightBinRange();

// Weight in the middle of bin `index`.
double WeightOfBin(std::size_t index);

// The q-quantile (0 <= q <= 1) of weights counted in `counts` [kWeightBins]: the middle of the bin
// that holds it, so log w is right to half a bin. 0 if nothing was counted.
double WeightQuantile(std::span<const double> counts, double q);

// (sum w)^2 / (n sum w^2): the share of n completions or tokens that weighted ones are worth, in
// (0, 1]. 0 if there are none.
double EffectiveShare(double count, double sum, double sum_of_squares);

}  // namespace buttress
