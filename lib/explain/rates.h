// Compares collapse rates with those that the difficulty of prompts predicts.
#pragma once

#include <cstdint>
#include <string>

namespace buttress {

// Returns part / whole, or 0 of nothing.
inline double Share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Compares two predictions of the same events by their squared errors (Brier's score).
class PairedGain {
 public:
  // `happened` is 0 or 1.
  void Add(double happened, double base, double other);

  // Returns whether `other` has the smaller errors: the mean difference is above 1.96 standard
  // errors.
  bool significant() const;

 private:
  double count_ = 0, sum_ = 0, sum_square_ = 0;
};

// The test that belongs to the interval of lib/rl/collapse/difficulty.h: `probability` is below
// 0.05 where the observed rate is outside of that interval.
struct Excess {
  double difference = 0;   // observed less expected rate
  double probability = 1;  // of a difference at least as large, in either direction, by chance

  static constexpr double kLevel = 0.05;

  bool significant() const { return probability < kLevel; }
};

// Compares the rate of `groups` groups with the rate that a difficulty predicts that was fitted to
// `fitted` groups: two-sided, normal, with the largest bias of the fit (kFitBias) taken off the
// difference. Groups count as independent of each other, so a policy that moves within the groups
// makes the probability too small. Without groups it is 1. Pure.
Excess ExcessOf(double observed, double expected, std::int64_t groups, std::int64_t fitted);

// "as difficulty predicts", "within chance (35 % of runs differ as much)" or "above what difficulty
// explains (0.002 % of runs differ as much by chance)"; "below ...".
std::string DescribeExcess(const Excess& excess);

}  // namespace buttress
