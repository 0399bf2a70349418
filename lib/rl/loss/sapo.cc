#include <torch/types.h>

#include "lib/rl/loss/policy_losses.h"

namespace buttress {

TokenLosses SapoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor beyond_M = at::expm1(terms.log_ratio_M);
  const auto gate = [&](double tau) { return at::sigmoid(beyond_M * tau) * (4.0 / tau); };
  TokenLosses losses;
  losses.loss_M =
      -terms.advantages_M * at::where(terms.advantages_M > 0, gate(options.sapo_tau_positive),
                                      gate(options.sapo_tau_negative));
  return losses;
}

}  // namespace buttress
