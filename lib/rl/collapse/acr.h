// Advantage collapse, counted exactly: the range test on raw rewards, integers only (arXiv
// 2605.21125, Definition 3.1, with max - min <= tolerance in place of a standard deviation;
// algorithms.md 1.6 says why).
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
// it is correct or wrong. Pure.
inline bool IsScorable(double reward, std::span<const Outcome> outcomes, std::size_t i) {
  return std::isfinite(reward) && (outcomes.empty() || outcomes[i] != Outcome::kUnscorable);
}

// Class of one group over its scorable completions; fewer than two of them: kUnscorable. Constant
// if max - min of `raw_rewards` <= tolerance. All outcomes correct (or, without outcomes, all
// rewards 1): all-correct; all wrong (all rewards 0): all-wrong. A reward that is not finite counts
// as unscorable. `outcomes` is [n] or empty. Pure.
CollapseClass ClassifyGroup(std::span<const double> raw_rewards, std::span<const Outcome> outcomes);

// The same for every group of a batch whose completions are all scorable; classes is [K]. Pure.
void ClassifyScorableGroups(std::span<const double> raw_rewards, std::span<const Outcome> outcomes,
                            std::span<const std::int32_t> group_offsets,
                            std::span<CollapseClass> classes);

// Of a batch. Pure.
CollapseCounts CountClasses(std::span<const CollapseClass> classes);

// Probability that a group of `n` scorable completions is constant, from the prompt's history under
// a Beta(1, 1) prior (Beta-binomial): E[p^n + (1-p)^n]. 1 for n < 2, where nothing can differ.
// REQUIRES: 0 <= correct <= scored. Pure.
double ExpectedCollapse(const PromptHistory& history, std::int64_t n);

// The same for all-correct alone: E[p^n]. REQUIRES: 0 <= correct <= scored, n >= 0. Pure.
double ExpectedAllCorrect(const PromptHistory& history, std::int64_t n);

inline constexpr double kAcrEmaDecay = 0.9;

}  // namespace buttress
