// A-GRAE (arXiv 2602.05548v3): harder groups count more as the batch gets better, and correct
// completions less while it is bad.
//
// g_i is grpo's advantage (algorithm.std, algorithm.eps), p the success rate of the group, omega
// that of the batch; over completions that are correct by outcome, or raw rewards in [0, 1] where
// outcomes are unknown.
//
// paper      Eq 12: A_i = omega / 2 * g_i / sqrt(p) + (1 - omega) / 2 * g_i / sqrt(1 - p); for p = 0 or 1, A_i = g_i
//            Eq 13: times min(1, omega / a_grae.alpha) where A_i > 0
// released   the repository's code, whose easy term grows without bound as p -> 1: omega the mean of the groups' rates,
//            A_i = omega / 2 * g_i / (sqrt(p) + eps) + (1 - omega) / 2 * g_i / (1 - sqrt(p) + eps), then Eq 13
// Constant groups keep 0 in both.
#pragma once

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

Status AGrae(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

}  // namespace buttress
