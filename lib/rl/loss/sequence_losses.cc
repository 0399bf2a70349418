// Losses whose ratio belongs to a whole completion: GSPO and GMPO.
//
// M: tokens of the micro-batch. policy_losses.h has the formulas.
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

TokenLosses GmpoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor& d_M = terms.log_ratio_M;
  const at::Tensor positive_M = terms.advantages_M > 0;
  const at::Tensor negative_M = terms.advantages_M < 0;
  at::Tensor clipped_M = at::where(positive_M, d_M.clamp_max(options.clip_high), d_M);
  clipped_M = at::where(negative_M, d_M.clamp_min(-options.clip_low), clipped_M);
  const at::Tensor log_mean_M = terms.completions.Mean(clipped_M);
  TokenLosses losses;
  losses.loss_M = -terms.completions.Mean(terms.advantages_M) *
                  at::exp(log_mean_M + (clipped_M - clipped_M.detach()));
  losses.clipped_low_M = negative_M & (d_M < -options.clip_low);
  losses.clipped_high_M = positive_M & (d_M > options.clip_high);
  return losses;
}

}  // namespace buttress
