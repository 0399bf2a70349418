// The policy losses: one function each; loss_table.h describes them. Torch.
//
// M: trained tokens of the micro-batch. All tensors are [M], float32. A token that does not count
// holds 0 everywhere; the caller leaves such tokens out and applies the weights. All functions are
// pure and wait for no device. A statistic of a whole completion is detached, and each token
// carries its own gradient, so that gradients do not depend on how a step is split.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/rl/loss/completion_sums.h"
#include "lib/rl/loss/loss_table.h"

namespace buttress {

// Bound of d = logprobs - old_logprobs before exp.
inline constexpr double kMaxLogRatio = 20.0;

// The settings of run.algorithm that ComputeLoss reads.
struct LossOptions {
  PolicyLoss policy = PolicyLoss::kPpo;
  OldPolicy old_policy = OldPolicy::kSampler;
  double clip_low = 0.2;
  double clip_high = 0.2;
  double dual_clip = 0.0;  // 0 = off
  double kl_coef = 0.0;    // of the KL loss; 0 where the KL term is in the reward
  KlEstimator kl_estimator = KlEstimator::kK3;
  double entropy_coef = 0.0;
  CorrectionMode correction = CorrectionMode::kNone;
  CorrectionLevel correction_level = CorrectionLevel::kToken;
  double correction_cap = 2.0;
  double correction_floor = 0.5;
  double sapo_tau_positive = 1.0;
  double sapo_tau_negative = 1.05;
  double dppo_cap = 20.0;
  double kl_cov_coef = 0.1;
};

LossOptions MakeLossOptions(const AlgorithmConfig& algorithm);

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

// PPO (arXiv 1707.06347, Eq 7) with separate bounds (DAPO, arXiv 2503.14476, Eq 8) and dual clip
// (arXiv 1912.09729):
//   L = max(-A rho, -A clip(rho, 1 - clip_low, 1 + clip_high))
//   for A < 0 and dual_clip > 0: min(L, -A dual_clip)
TokenLosses PpoLoss(const PolicyTerms& terms, const LossOptions& options);

// GSPO (arXiv 2507.18071, Eq 5 and 7): the bounds of PPO on s = exp(mean d over the completion),
// with the completion's mean advantage. `kGspoToken` (Eq 13 and 14) takes each token's own
// advantage, which is equal wherever the tokens of a completion share one. A token carries sg[s]
// exp(lp - sg[lp]): weighted 1 / T_i, these gradients add up to that of s.
TokenLosses GspoLoss(const PolicyTerms& terms, const LossOptions& options);

// CISPO (arXiv 2506.13585, Eq 4 and 5): -sg[clip(rho, 1 - clip_low, 1 + clip_high)] A lp.
TokenLosses CispoLoss(const PolicyTerms& terms, const LossOptions& options);

// GMPO (arXiv 2507.20673, Eq 3 and 4): -B exp(mean c), where c is the log ratio clipped on the side
// that its advantage pushes to and B the completion's mean advantage. clip_low and clip_high bound
// the log ratio.
TokenLosses GmpoLoss(const PolicyTerms& terms, const LossOptions& options);

// SAPO (arXiv 2511.20347): -A (4 / tau) sigmoid(tau (rho - 1)), tau by the advantage's sign.
TokenLosses SapoLoss(const PolicyTerms& terms, const LossOptions& options);

// GPG (arXiv 2504.02546): -A lp, the plain policy gradient. It has no ratio, so that off-policy it
// is biased unless a correction weights it.
TokenLosses GpgLoss(const PolicyTerms& terms, const LossOptions& options);

// DPPO (arXiv 2602.04879): -A sg[min(rho, cap)] lp, and 0 for tokens on which the policies are too
// far apart in the direction that A pushes to. kDppoTv measures exp(lp) - exp(old), kDppoKl the KL
// divergence between the Bernoulli distributions of the token under both policies.
TokenLosses DppoLoss(const PolicyTerms& terms, const LossOptions& options);

// Clip-Cov (arXiv 2505.22617): PPO without dual clip, and 0 for marked tokens.
TokenLosses ClipCovLoss(const PolicyTerms& terms, const LossOptions& options);

// KL-Cov (arXiv 2505.22617): -A rho, plus kl_cov_coef |d| for marked tokens.
TokenLosses KlCovLoss(const PolicyTerms& terms, const LossOptions& options);

// The loss of options.policy.
TokenLosses ComputeTokenLosses(const PolicyTerms& terms, const LossOptions& options);

// max(-A ratio, -A clip(ratio)), which PPO, GSPO and Clip-Cov share.
TokenLosses ClippedSurrogate(const at::Tensor& ratio_M, const at::Tensor& advantages_M,
                             const LossOptions& options);

}  // namespace buttress
