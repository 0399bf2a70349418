// The KL term against the start model. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/rl/loss/loss.h"

namespace buttress {

// Estimates of KL(policy || start model) from the log-probs of sampled tokens (Schulman,
// "Approximating KL divergence"; docs/theory.md, section 6). [M], with x = logprobs - ref_logprobs:
//   k1   x
//   k2   x^2 / 2
//   k3   exp(-x) + x - 1, x clamped to +-20 and k3 to +-10, as verl has it
//   k3+  the value of k3 with the gradient of k2
// As a loss, k1 has an expected gradient of zero, k2 that of KL(policy || start model), and k3 that
// of KL(start model || policy).
at::Tensor KlEstimate(const at::Tensor& logprobs_M, const at::Tensor& ref_logprobs_M,
                      KlEstimator estimator);

// [2] float64, detached: sums over the tokens of the micro-batch of |gradient of the KL loss with
// respect to the token's log-prob|, weights and kl_coef included: over all tokens, and over those
// where constant_M (bool, [M]) is set. For GradientMass (collapse/collapse_metrics.h). REQUIRES:
// kl_coef > 0 and ref_logprobs_M.
at::Tensor KlGradientMass(const LossInput& input, const AlgorithmConfig& options,
                          const at::Tensor& constant_M);

}  // namespace buttress
