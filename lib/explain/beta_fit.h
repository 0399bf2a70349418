// Fits a Beta distribution to the success rates of prompts by its first two moments, from groups
// alone, and predicts the collapse rate of larger groups.
#pragma once

#include <cstdint>

namespace buttress {

// Sums over groups with k correct of n scorable completions, n >= 2. The estimators k / n and
// k (k - 1) / (n (n - 1)) are unbiased for E[p] and E[p^2].
class BetaFit {
 public:
  void Add(std::int64_t correct, std::int64_t scored);

  std::int64_t groups() const { return groups_; }

  double mean() const;

  // Returns the expected share of constant groups of size `n`, E[p^n + (1 - p)^n]; 0 without
  // groups. REQUIRES: n >= 1.
  double ExpectedAcr(std::int64_t n) const;

 private:
  std::int64_t groups_ = 0;
  double sum_ = 0;
  double sum_square_ = 0;
};

}  // namespace buttress
