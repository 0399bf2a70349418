#include <torch/types.h>

#include "lib/rl/loss/policy_losses.h"

namespace buttress {

TokenLosses ClippedSurrogate(const at::Tensor& ratio_M, const at::Tensor& advantages_M,
                             const LossOptions& options) {
  const at::Tensor clipped_M = ratio_M.clamp(1.0 - options.clip_low, 1.0 + options.clip_high);
  TokenLosses losses;
  losses.loss_M = at::max(-advantages_M * ratio_M, -advantages_M * clipped_M);
  losses.clipped_low_M = (advantages_M < 0) & (ratio_M < 1.0 - options.clip_low);
  losses.clipped_high_M = (advantages_M > 0) & (ratio_M > 1.0 + options.clip_high);
  return losses;
}

TokenLosses PpoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor ratio_M = at::exp(terms.log_ratio_M);
  TokenLosses losses = ClippedSurrogate(ratio_M, terms.advantages_M, options);
  if (options.dual_clip == 0) return losses;
  const at::Tensor negative_M = terms.advantages_M < 0;
  losses.loss_M = at::where(
      negative_M, at::min(losses.loss_M, -terms.advantages_M * options.dual_clip), losses.loss_M);
  losses.clipped_dual_M = negative_M & (ratio_M > options.dual_clip);
  return losses;
}

}  // namespace buttress
