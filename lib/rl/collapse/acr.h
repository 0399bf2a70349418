// Advantage collapse, counted exactly: a range test on raw rewards, in integers. It is Definition
// 3.1 of arXiv 2605.21125 with max - min <= tolerance in place of a standard deviation, which
// rounding keeps from being 0 (docs/theory.md, section 1).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/experience/collapse.h"
#include "lib/experience/types.h"

namespace buttress {

inline constexpr double kCollapseTolerance = 0.0;

// Whether completion `i` counts in statistics: its reward is finite and, where outcomes are known,
// its outcome is correct or wrong. Pure.
inline bool IsScorable(double reward, std::span<const Outcome> outcomes, std::size_t i) {
  return std::isfinite(reward) && (outcomes.empty() || outcomes[i] != Outcome::kUnscorable);
}

// Class of one group over its scorable completions. `raw_rewards` is [n], `outcomes` [n] or empty.
//   fewer than two scorable completions           kUnscorable
//   max - min of raw_rewards above the tolerance  kMixed
//   all outcomes correct, or all rewards 1        kAllCorrect
//   all outcomes wrong, or all rewards 0          kAllWrong
//   else                                          kOtherConstant
// Rewards of 1 and 0 count where `outcomes` is empty. Pure.
CollapseClass ClassifyGroup(std::span<const double> raw_rewards, std::span<const Outcome> outcomes);

// Probability that a group of `n` scorable completions is constant, E[p^n + (1 - p)^n], where p has
// the posterior of the prompt's history under a Beta(1, 1) prior (docs/theory.md, section 1). 1 for
// n < 2, where no two rewards can differ. REQUIRES: 0 <= correct <= scored. Pure.
double ExpectedCollapse(const PromptHistory& history, std::int64_t n);

// Probability that a group of `n` scorable completions is all-correct, E[p^n]. REQUIRES: 0 <=
// correct <= scored, n >= 0. Pure.
double ExpectedAllCorrect(const PromptHistory& history, std::int64_t n);

// Weight of the old value in the moving average of ACR over steps.
inline constexpr double kAcrEmaDecay = 0.9;

}  // namespace buttress
