// M: trained tokens of the micro-batch.
#include "lib/rl/loss/kl.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace buttress {
namespace {

constexpr double kMaxK3 = 10.0;

at::Tensor K3(const at::Tensor& x_M) {
  const at::Tensor bounded_M = x_M.clamp(-kMaxLogRatio, kMaxLogRatio);
  return (at::expm1(-bounded_M) + bounded_M).clamp(-kMaxK3, kMaxK3);
}

}  // namespace

at::Tensor KlEstimate(const at::Tensor& logprobs_M, const at::Tensor& ref_logprobs_M,
                      KlEstimator estimator) {
  const at::Tensor x_M = logprobs_M - ref_logprobs_M;
  switch (estimator) {
    case KlEstimator::kK1:
      return x_M;
    case KlEstimator::kK2:
      return x_M * x_M * 0.5;
    case KlEstimator::kK3:
      return K3(x_M);
    case KlEstimator::kK3Plus: {
      const at::Tensor k2_M = x_M * x_M * 0.5;
      return K3(x_M.detach()) + (k2_M - k2_M.detach());
    }
  }
  return x_M;
}

at::Tensor KlGradientMass(const LossInput& input, const AlgorithmConfig& options,
                          const at::Tensor& constant_M) {
  const at::AutoGradMode with_gradient(true);
  LossInput kl = input;
  kl.logprobs_M = input.logprobs_M.detach().requires_grad_(true);
  kl.advantages_M = at::zeros_like(input.advantages_M);  // -A lp contributes nothing
  kl.entropy_M.reset();
  AlgorithmConfig alone = options;
  alone.loss = PolicyLoss::kGpg;
  alone.correction.mode = CorrectionMode::kNone;
  alone.entropy_coef = 0;
  const LossOutput loss = ComputeLoss(kl, alone);
  const at::Tensor mass_M =
      torch::autograd::grad({loss.loss_sum}, {kl.logprobs_M})[0].abs().to(at::kDouble);
  return at::stack({mass_M.sum(), mass_M.where(constant_M, 0.0).sum()}).detach();
}

}  // namespace buttress
