#include <torch/types.h>

#include "lib/rl/loss/policy_losses.h"

namespace buttress {

TokenLosses GpgLoss(const PolicyTerms& terms, const LossOptions&) {
  TokenLosses losses;
  losses.loss_M = -terms.advantages_M * terms.logprobs_M;
  return losses;
}

}  // namespace buttress
