// M: trained tokens of the micro-batch.
#include "lib/rl/loss/kl_mass.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace buttress {

at::Tensor KlGradientMass(const LossInput& input, const LossOptions& options,
                          const at::Tensor& constant_M) {
  const at::AutoGradMode with_gradient(true);
  LossInput kl = input;
  kl.logprobs_M = input.logprobs_M.detach().requires_grad_(true);
  kl.advantages_M = at::zeros_like(input.advantages_M);  // leaves nothing of -A lp
  kl.entropy_M.reset();
  LossOptions alone = options;
  alone.policy = PolicyLoss::kGpg;
  alone.correction = CorrectionMode::kNone;
  alone.entropy_coef = 0;
  const LossOutput loss = ComputeLoss(kl, alone);
  const at::Tensor mass_M =
      torch::autograd::grad({loss.loss_sum}, {kl.logprobs_M})[0].abs().to(at::kDouble);
  return at::stack({mass_M.sum(), mass_M.where(constant_M, 0.0).sum()}).detach();
}

}  // namespace buttress
