// The loss of one micro-batch. Torch.
//
// M: trained tokens of the micro-batch, packed without padding, completions one after another; C:
// its completions.
//
//   loss_sum = sum_m weights_M[m] (correction weight * policy loss + kl_coef KL loss - entropy_coef
//   entropy)
//
// weights_M (lib/rl/loss/aggregation.h) hold the whole step's denominators, so sums over micro-batches
// and ranks are the step's loss and gradient, however the step was split.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/rl/loss/policy_losses.h"

namespace buttress {

// All [M] but lengths_C, on one device; any floating type, computed in float32.
struct LossInput {
  at::Tensor logprobs_M;          // of the policy that is trained; carries the gradient
  at::Tensor sampler_logprobs_M;  // of the policy that sampled, as it recorded them
  at::Tensor advantages_M;
  at::Tensor weights_M;
  at::Tensor
      // bool; undefined: every token counts. A masked token has no loss, no gradient and is in no
      // metric
      mask_M;
  at::Tensor ref_logprobs_M;  // of the start model; needed if kl_coef > 0
  at::Tensor
      // nats, of the policy that is trained; needed, with its gradient, if entropy_coef > 0; else
      // may be undefined
      entropy_M;
  // Of the policy that the ratio divides by. Undefined: by options.old_policy the sampler's, or the
  // trained policy's own, detached, which is what the learner has at the first update of a step.
  at::Tensor old_logprobs_M;
  at::Tensor
      // int64: tokens of each completion, M together; needed by losses and corrections over
      // completions
      lengths_C;
  at::Tensor
      marked_M;  // bool, for clip_cov and kl_cov (lib/rl/loss/token_covariance.h); undefined: none
};

// Rows of LossOutput::metrics: sums over the micro-batch's tokens, so that micro-batches and ranks
// add up.
enum class LossMetric : std::uint8_t {
  kTokens,        // tokens in the loss
  kDropped,       // tokens left out because their recorded log-prob is not finite
  kPolicyLoss,    // weighted: a part of loss_sum
  kKlLoss,        // weighted and times kl_coef: a part of loss_sum
  kEntropyBonus,  // weighted and times entropy_coef: what loss_sum was lowered by
  kEntropy,       // nats; 0 without entropy_M
  kRefKl,         // the estimator's value against the start model; 0 without ref_logprobs_M
  kClippedLow,    // tokens, see TokenLosses
  kClippedHigh,
  kClippedDual,
  kMarked,  // tokens that clip_cov or kl_cov treated otherwise
  kRatio,   // exp(logprobs - sampler_logprobs): the whole importance weight
  kRatioSquared,
  kCorrection,  // weights of options.correction, as applied; 0 without
  kCorrectionSquared,
  kCorrectionTruncated,  // tokens
  kCorrectionMasked,
  kSamplerKlK1,  // sampler_logprobs - logprobs: KL(sampler || learner), estimator k1
  kSamplerKlK3,  // ratio - 1 - log ratio: the same, estimator k3
  kSamplerGap,   // |logprobs - sampler_logprobs|
  kCount,
};

struct LossOutput {
  at::Tensor loss_sum;  // scalar, differentiable
  at::Tensor metrics;   // [LossMetric::kCount] float64, detached, on the inputs' device
  at::Tensor
      // [kWeightBins] float64: histogram of exp(logprobs - sampler_logprobs), see
      // weight_statistics.h
      weight_counts;

  // Element of `metrics` by name, as a scalar tensor.
  at::Tensor metric(LossMetric which) const;
};

// A token whose recorded log-prob is not finite is dropped and counted; the denominators inside
// weights_M stay. Nothing waits for the device.
LossOutput ComputeLoss(const LossInput& input, const LossOptions& options);

}  // namespace buttress
