#include <torch/types.h>

#include "lib/rl/loss/policy_losses.h"

namespace buttress {

TokenLosses CispoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor ratio_M = at::exp(terms.log_ratio_M.detach());
  TokenLosses losses;
  losses.loss_M = -ratio_M.clamp(1.0 - options.clip_low, 1.0 + options.clip_high) *
                  terms.advantages_M * terms.logprobs_M;
  const at::Tensor pushed_M = terms.advantages_M != 0;
  losses.clipped_low_M = pushed_M & (ratio_M < 1.0 - options.clip_low);
  losses.clipped_high_M = pushed_M & (ratio_M > 1.0 + options.clip_high);
  return losses;
}

}  // namespace buttress
