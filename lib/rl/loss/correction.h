// Weights for the gap between the policy that sampled and the old policy of the ratio: another
// engine, other kernels, older weights. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/rl/loss/completion_sums.h"
#include "lib/rl/loss/policy_losses.h"

namespace buttress {

// All [M], without gradient.
struct CorrectionWeights {
  at::Tensor weights_M;    // float32; multiplies a token's policy loss, outside every clip
  at::Tensor truncated_M;  // bool: w was above the cap
  at::Tensor masked_M;     // bool: w was outside the bounds and the weight is 0
};

// log w = old_logprobs - sampler_logprobs of the token, or its sum or mean over the completion, by
// level, clamped to +-20. Weights by mode:
//   is      w
//   tis     min(w, cap)
//   mis     w, 0 above cap
//   icepop  w, 0 outside [floor, cap]
// TIS: Yao et al., "Your efficient RL framework secretly brings you off-policy RL training".
// IcePop: Ring-1T, arXiv 2510.18855. With mis this is decoupled PPO as AReaL filters it (arXiv
// 2505.24298, Eq 5). Denominators keep masked tokens. REQUIRES: a mode other than kNone.
CorrectionWeights Correct(const at::Tensor& old_logprobs_M, const at::Tensor& sampler_logprobs_M,
                          const CompletionSums& completions, const LossOptions& options);

}  // namespace buttress
