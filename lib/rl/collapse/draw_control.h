// The closed loop on the share of mixed groups of a step (run.control).
//
// Dynamic sampling (DAPO, arXiv 2503.14476) replaces constant groups until a plan has none, however
// many groups that takes. The loop bounds the groups that are drawn for a step by a factor of P and
// moves its logarithm by what is missing to a target share m*:
//
//   log u <- log u + gain (m* - m),   1 <= u <= 1 + cap
//
// This is integral control, as online conformal prediction has it for coverage (arXiv 2106.00170):
// over T steps in which u meets neither bound, the mean of m differs from m* by at most
// log(1 + cap) / (gain T), whatever the prompts do meanwhile. u = 1 replaces no group.
//
// All functions are pure.
#pragma once

#include <cstdint>

#include "lib/config/sections/draw_control_config.h"
#include "lib/experience/plan.h"

namespace buttress {

// Returns the draw factor of the step after `last`, of which `factor` and `mixed` count. `cap` is
// that of run.batch.resample, in units of P.
double NextDrawFactor(const DrawControlConfig& control, const DrawControl& last, std::int64_t cap);

// Returns how many groups a step of P = `prompts` groups may replace under a draw factor.
std::int64_t ReplaceableGroups(double factor, std::int64_t prompts);

// Returns the expected share of mixed groups in a plan of P = `prompts` groups of which `replaced`
// may be replaced, if each drawn group is mixed with probability `rate`:
//   E[min(P, M)] / P,   M ~ Binomial(P + replaced, rate)
// because a plan has fewer than P mixed groups only if all that may be replaced were.
double ExpectedMixed(double rate, std::int64_t prompts, std::int64_t replaced);

}  // namespace buttress
