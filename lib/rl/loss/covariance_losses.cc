// Losses that treat tokens differently by their covariance: Clip-Cov and KL-Cov.
//
// M: tokens of the micro-batch. policy_losses.h has the formulas.
#include <torch/types.h>

#include "lib/rl/loss/policy_losses.h"

namespace buttress {

TokenLosses ClipCovLoss(const PolicyTerms& terms, const LossOptions& options) {
  TokenLosses losses = ClippedSurrogate(at::exp(terms.log_ratio_M), terms.advantages_M, options);
  if (terms.marked_M.defined()) losses.loss_M = at::where(terms.marked_M, 0.0, losses.loss_M);
  return losses;
}

TokenLosses KlCovLoss(const PolicyTerms& terms, const LossOptions& options) {
  TokenLosses losses;
  losses.loss_M = -terms.advantages_M * at::exp(terms.log_ratio_M);
  if (terms.marked_M.defined()) {
    losses.loss_M = losses.loss_M +
                    at::where(terms.marked_M, terms.log_ratio_M.abs() * options.kl_cov_coef, 0.0);
  }
  return losses;
}

}  // namespace buttress
