// The policy losses: one function each in policy_losses.cc; loss_table.h describes them. Torch.
//
// M: trained tokens of the micro-batch. All tensors are [M], float32. A token that does not count
// holds 0 everywhere; the caller leaves such tokens out and applies the weights. All functions are
// pure and wait for no device; `options` is run.algorithm. A statistic of a whole completion is
// detached, and each token carries its own gradient, so that gradients do not depend on how a step
// is split.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/rl/loss/loss_table.h"

namespace buttress {

// Bound of d = logprobs - old_logprobs before exp.
inline constexpr double kMaxLogRatio = 20.0;

// Statistics over the tokens of each completion of a micro-batch: M tokens, packed completion after
// completion, of C completions.
class CompletionSums {
 public:
  // `keep_M` (bool): tokens that count. `lengths_C` (int64): tokens of each completion, kept or
  // not, M together; undefined: statistics must not be asked for.
  CompletionSums(at::Tensor lengths_C, at::Tensor keep_M);

  // [M] float32 without gradient: each token gets the sum, or the mean, over the kept tokens of its
  // completion; 0 for a completion that keeps none. Summed in float64, so that neither length nor
  // order of a completion shows in float32.
  at::Tensor Sum(const at::Tensor& x_M) const;
  at::Tensor Mean(const at::Tensor& x_M) const;

 private:
  at::Tensor OverCompletion(const at::Tensor& x_M) const;

  const at::Tensor lengths_C_;
  const at::Tensor keep_M_;
};

struct PolicyTerms {
  at::Tensor logprobs_M;      // carries the gradient
  at::Tensor old_logprobs_M;  // of the policy that the ratio divides by
  at::Tensor log_ratio_M;     // logprobs - old_logprobs within +-kMaxLogRatio; carries the gradient
  at::Tensor advantages_M;
  at::Tensor marked_M;  // bool: tokens that clip_cov and kl_cov treat differently; undefined: none
  const CompletionSums& completions;
};

struct TokenLosses {
  at::Tensor loss_M;
  // bool: tokens whose gradient a bound has cut or changed; undefined: the loss has no such bound.
  // Low: the policy had moved away from the token. High: it had moved towards it. Dual: A < 0 and
  // the ratio is above dual_clip or cap.
  at::Tensor clipped_low_M, clipped_high_M, clipped_dual_M;
};

// The loss of options.loss.
TokenLosses ComputeTokenLosses(const PolicyTerms& terms, const AlgorithmConfig& options);

}  // namespace buttress
