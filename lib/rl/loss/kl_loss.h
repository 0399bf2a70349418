// Estimators of KL(policy || start model) from log-probs of sampled tokens (Schulman,
// "Approximating KL divergence"). Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/rl/loss/loss_table.h"

namespace buttress {

// [M], with x = logprobs - ref_logprobs: k1 = x, k2 = x^2 / 2, k3 = exp(-x) + x - 1 with x clamped
// to +-20 and k3 to +-10, as verl has it; k3+ has the value of k3 and the gradient of k2. As a loss
// k1 has zero expected gradient, k2 that of KL(policy || start model), k3 that of KL(start model ||
// policy).
at::Tensor KlEstimate(const at::Tensor& logprobs_M, const at::Tensor& ref_logprobs_M,
                      KlEstimator estimator);

}  // namespace buttress
