// The loss of one micro-batch. Torch.
//
// M: trained tokens of the micro-batch, packed without padding, completions one after another.
//
//   loss_sum = sum_m weights_M[m] (policy loss + kl_coef KL loss - entropy_coef entropy)
//
// weights_M (lib/rl/aggregation.h) hold the whole step's denominators, so sums over micro-batches and ranks are the step's loss and
// gradient, however the step was split.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lib/base/status.h"
#include "lib/config/run_config.h"

namespace buttress {

enum class KlEstimator : std::uint8_t { kK1, kK2, kK3 };

struct LossOptions {
  double clip_low = 0.2;
  double clip_high = 0.2;
  double dual_clip = 0.0;  // 0 = off
  double kl_coef = 0.0;
  KlEstimator kl_estimator = KlEstimator::kK3;
  double entropy_coef = 0.0;

  // Whether a token whose advantage is 0 has a gradient all the same.
  bool zero_advantage_has_gradient() const { return kl_coef > 0 || entropy_coef > 0; }
};

// kInvalidArgument for an unknown kl_estimator.
Result<LossOptions> MakeLossOptions(const AlgorithmConfig& algorithm);

// All [M], on one device; any floating type, computed in float32.
struct LossInput {
  at::Tensor logprobs_M;      // of the policy that is trained; carries the gradient
  at::Tensor old_logprobs_M;  // of the policy that sampled
  at::Tensor advantages_M;
  at::Tensor weights_M;
  at::Tensor mask_M;          // bool; undefined: every token counts. A masked token has no loss, no gradient and is in no metric
  at::Tensor ref_logprobs_M;  // of the start model; needed if kl_coef > 0
  at::Tensor entropy_M;       // nats, of the policy that is trained; needed, with its gradient, if entropy_coef > 0; else may be undefined
};

// Rows of LossOutput::metrics: sums over the micro-batch's tokens, so that micro-batches and ranks add up.
enum class LossMetric : std::uint8_t {
  kTokens,         // tokens in the loss
  kDropped,        // tokens left out because their old log-prob is not finite
  kPolicyLoss,     // weighted: a part of loss_sum
  kKlLoss,         // weighted and times kl_coef: a part of loss_sum
  kEntropyBonus,   // weighted and times entropy_coef: what loss_sum was lowered by
  kEntropy,        // nats; 0 without entropy_M
  kRefKl,          // the estimator's value against the start model; 0 without ref_logprobs_M
  kClippedLow,     // tokens with A < 0 and ratio < 1 - clip_low
  kClippedHigh,    // tokens with A > 0 and ratio > 1 + clip_high
  kClippedDual,    // tokens with A < 0 and ratio > dual_clip
  kRatio,          // exp(logprobs - old_logprobs)
  kRatioSquared,   // with kRatio: effective share of tokens = kRatio^2 / (kTokens kRatioSquared)
  kSamplerKlK1,    // old_logprobs - logprobs: KL(sampler || learner), estimator k1
  kSamplerKlK3,    // ratio - 1 - log ratio: the same, estimator k3
  kSamplerGap,     // |logprobs - old_logprobs|
  kCount,
};

struct LossOutput {
  at::Tensor loss_sum;  // scalar, differentiable
  at::Tensor metrics;   // [LossMetric::kCount] float64, detached, on the inputs' device

  // Element of `metrics` by name, as a scalar tensor.
  at::Tensor metric(LossMetric which) const;
};

// Policy loss, per token, with d = logprobs - old_logprobs clamped to +-20 and ratio = exp(d) (PPO, arXiv 1707.06347, Eq 7; separate
// bounds, DAPO, arXiv 2503.14476, Eq 8; dual clip, arXiv 1912.09729):
//   L = max(-A ratio, -A clip(ratio, 1 - clip_low, 1 + clip_high));  A < 0 and dual_clip > 0: min(L, -A dual_clip)
// KL loss with x = logprobs - ref_logprobs (Schulman, "Approximating KL divergence"): k1 = x, k2 = x^2 / 2, k3 = exp(-x) + x - 1 with x
// clamped to +-20 and k3 to +-10, as verl has it. As a loss k1 has zero expected gradient, k2 has that of KL(policy || ref).
// A token whose old log-prob is not finite is dropped and counted; the denominators inside weights_M stay. Nothing waits for the device.
LossOutput ComputeLoss(const LossInput& input, const LossOptions& options);

}  // namespace buttress
