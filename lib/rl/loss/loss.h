// The loss of one micro-batch. Torch.
//
// M: trained tokens of the micro-batch, packed without padding, completions one after another.
// C: its completions.
//
//   loss_sum = sum_m weights_M[m] (correction weight * policy loss + kl_coef * KL loss
//                                  - entropy_coef * entropy)
//
// weights_M (aggregation.h) contain the denominators of the whole step, so that sums over
// micro-batches and ranks are the step's loss and gradient, however the step is split.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/rl/loss/policy_losses.h"

namespace buttress {

// All [M] except lengths_C, on one device; any floating type, computed in float32.
struct LossInput {
  at::Tensor logprobs_M;          // of the policy that is trained; carries the gradient
  at::Tensor sampler_logprobs_M;  // of the policy that sampled, as it recorded them
  at::Tensor advantages_M;
  at::Tensor weights_M;
  at::Tensor ref_logprobs_M;  // of the start model; required if kl_coef > 0
  // Nats, of the policy that is trained; required, with its gradient, if entropy_coef > 0.
  at::Tensor entropy_M;
  // Of the policy that the ratio divides by. Undefined: by options.old_policy the sampler's, or
  // the trained policy's own, detached, which is what the learner has at the only update of a step.
  at::Tensor old_logprobs_M;
  // int64: tokens of each completion, M together; required by losses and corrections over
  // completions.
  at::Tensor lengths_C;
  at::Tensor marked_M;  // bool, for clip_cov and kl_cov; undefined: none
};

// Rows of LossOutput::metrics: sums over the tokens of the micro-batch, which add up over
// micro-batches and ranks.
enum class LossMetric : std::uint8_t {
  kTokens,        // tokens in the loss
  kDropped,       // tokens left out because their recorded log-prob is not finite
  kPolicyLoss,    // weighted: a part of loss_sum
  kKlLoss,        // weighted and times kl_coef: a part of loss_sum
  kEntropyBonus,  // weighted and times entropy_coef: subtracted from loss_sum
  kEntropy,       // nats; 0 without entropy_M
  kRefKl,         // value of the KL estimator against the start model; 0 without ref_logprobs_M
  kClippedLow,    // tokens, see TokenLosses
  kClippedHigh,
  kClippedDual,
  kMarked,  // tokens of marked_M
  kRatio,   // exp(logprobs - sampler_logprobs): the whole importance weight
  kRatioSquared,
  kCorrection,  // weights of options.correction, as applied; 0 without
  kCorrectionSquared,
  kCorrectionTruncated,  // tokens
  kCorrectionMasked,     // tokens
  kSamplerKlK1,          // sampler_logprobs - logprobs: KL(sampler || learner) by estimator k1
  kSamplerKlK3,          // ratio - 1 - log ratio: KL(sampler || learner) by estimator k3
  kOldKl,                // as kSamplerKlK3, of the old policy of the ratio
  kCount,
};

struct LossOutput {
  at::Tensor loss_sum;  // scalar, differentiable
  at::Tensor metrics;   // [LossMetric::kCount] float64, detached, on the inputs' device
  // [kWeightBins] float64: histogram of exp(logprobs - sampler_logprobs) (weight_statistics.h)
  at::Tensor weight_counts;

  // Element of `metrics`, as a scalar tensor.
  at::Tensor metric(LossMetric which) const;
};

// The weight of the KL loss: 0 where the KL term is in the reward.
double KlLossCoef(const AlgorithmConfig& algorithm);

// Computes the loss by `options`, run.algorithm, without waiting for the device. A token whose
// recorded log-prob is not finite is dropped and counted; the denominators inside weights_M stay.
LossOutput ComputeLoss(const LossInput& input, const AlgorithmConfig& options);

}  // namespace buttress
