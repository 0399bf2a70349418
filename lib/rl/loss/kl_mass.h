// How hard the KL term pulls, for GradientMass (gradient_share.h). Torch.
#pragma once

#include "lib/rl/loss/loss.h"

namespace buttress {

// [2] float64, detached: sums over the micro-batch's tokens of |gradient of the KL loss with
// respect to the token's log-prob|, weights and kl_coef included: of all tokens, and of those where
// constant_M (bool, [M]) is set. REQUIRES: kl_coef > 0 and ref_logprobs_M.
at::Tensor KlGradientMass(const LossInput& input, const LossOptions& options,
                          const at::Tensor& constant_M);

}  // namespace buttress
