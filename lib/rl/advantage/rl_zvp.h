// RL-ZVP, "No Prompt Left Behind" (arXiv 2509.21880): constant groups learn from the entropy of
// their own tokens.
//
// Mixed groups have grpo's advantages. In an all-correct group the token t of completion i, with
//   entropy H_t (nats, detached), has A_t = alpha H_t,
// in an all-wrong one
//   A_t = -alpha (max_s H_s - H_t), max over the completion's own tokens.
// Entropies are known only where the tokens are run through the model, after advantages; so the
// estimator gives a completion advantages[i] = 0 and entropy_scale[i] = +-alpha (rl_zvp.alpha), and
// TokenAdvantages does the rest.
#pragma once

#include <span>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

Status RlZvp(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// advantages[t] = advantage + entropy_scale * entropies[t] for a scale above 0, advantage +
// entropy_scale * (max entropy - entropies[t]) below 0, advantage for 0. One completion. Pure.
// REQUIRES: as many advantages as entropies.
void TokenAdvantages(double advantage, double entropy_scale, std::span<const double> entropies,
                     std::span<double> advantages);

}  // namespace buttress
