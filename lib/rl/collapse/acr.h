// Advantage collapse, counted exactly: a range test on raw rewards, in integers. It is Definition
// 3.1 of arXiv 2605.21125 with EqualRewards in place of a standard deviation, which rounding keeps
// from being 0 (docs/theory.md, section 1).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/experience/collapse.h"
#include "lib/experience/types.h"

namespace buttress {

// Rewards closer than this, relative to max(1, |reward|), are equal. A reward is a sum of a few
// float32 numbers; each addition has a relative error of 6e-8, so that ten additions and a cast
// stay below it.
inline constexpr double kRewardTolerance = 1e-6;

// Whether two rewards differ by rounding at most. Pure.
inline bool EqualRewards(double a, double b) {
  return std::abs(a - b) <= kRewardTolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

// Whether completion `i` counts in statistics: its reward is finite and, where outcomes are known,
// its outcome is correct or wrong. Pure.
inline bool IsScorable(double reward, std::span<const Outcome> outcomes, std::size_t i) {
  return std::isfinite(reward) && (outcomes.empty() || outcomes[i] != Outcome::kUnscorable);
}

// Class of one group over its scorable completions. `raw_rewards` is [n], `outcomes` [n] or empty.
//   fewer than two scorable completions           kUnscorable
//   raw rewards that are not EqualRewards         kMixed
//   all outcomes correct, or all rewards 1        kAllCorrect
//   all outcomes wrong, or all rewards 0          kAllWrong
//   else                                          kOtherConstant
// Rewards of 1 and 0 count where `outcomes` is empty. Pure.
CollapseClass ClassifyGroup(std::span<const double> raw_rewards, std::span<const Outcome> outcomes);

// Weight of the old value in the moving average of ACR over steps.
inline constexpr double kAcrEmaDecay = 0.9;

}  // namespace buttress
