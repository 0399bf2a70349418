#include <torch/types.h>

#include "lib/rl/loss/policy_losses.h"

namespace buttress {

TokenLosses GspoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor log_s_M = terms.completions.Mean(terms.log_ratio_M);
  const at::Tensor s_M = at::exp(log_s_M + (terms.logprobs_M - terms.logprobs_M.detach()));
  const bool per_token = options.policy == PolicyLoss::kGspoToken;
  return ClippedSurrogate(
      s_M, per_token ? terms.advantages_M : terms.completions.Mean(terms.advantages_M), options);
}

}  // namespace buttress
