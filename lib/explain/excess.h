// A test whether a collapse rate is outside of what difficulty explains.
#pragma once

#include <cstdint>
#include <string>

namespace buttress {

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
