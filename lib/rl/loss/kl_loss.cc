#include "lib/rl/loss/kl_loss.h"

#include <torch/types.h>

#include "lib/rl/loss/policy_losses.h"

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

}  // namespace buttress
