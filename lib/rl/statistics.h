// Statistics of rewards, for estimators and collapse metrics. All functions are pure and compute in
// double.
#pragma once

#include <cstdint>
#include <span>

#include "lib/config/estimator_config.h"

namespace buttress {

// Whether all values are EqualRewards; true for fewer than two. Equality is tested by comparison:
// the standard deviation of equal values is not 0 in general (docs/theory.md, section 1).
bool AllEqual(std::span<const double> values);

// Mean of `values`; exactly the first of them if all are equal. REQUIRES: values is not empty.
double Mean(std::span<const double> values);

// Sum of (value - mean)^2.
double SumSquares(std::span<const double> values, double mean);

// Variance of a sample: the divisor is n - 1. REQUIRES: at least two values.
double SampleVariance(std::span<const double> values);

// What group-relative estimators divide by: the standard deviation plus eps; 1 for StdKind::kNone.
// `count` is the number of values, or their weight, behind `sum_squares`.
double StdPlusEps(double sum_squares, double count, StdKind kind, double eps);

// Makes values[i] = (values[i] - m) / sqrt(v + 1e-8), or values[i] - m for StdKind::kNone, where
// value i counts lengths[i] times:
//   m = sum_i T_i x_i / sum_i T_i
//   v = sum_i T_i (x_i - m)^2 / (sum_i T_i - 1), for kPopulation / sum_i T_i
// This is verl's masked_whiten over the tokens of a batch. All values become exactly 0 if those
// with tokens are equal. A value without tokens is in neither statistic.
void WhitenTokens(std::span<const std::int32_t> lengths, StdKind kind, std::span<double> values);

}  // namespace buttress
