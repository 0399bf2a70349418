// Statistics of rewards, for estimators and collapse metrics. All functions are pure and compute in
// double.
#pragma once

#include <span>

#include "lib/config/sections/estimator_config.h"

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

}  // namespace buttress
