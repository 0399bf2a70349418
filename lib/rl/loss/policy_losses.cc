// M: tokens of the micro-batch, C: its completions.
#include "lib/rl/loss/policy_losses.h"

#include <torch/types.h>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

// KL of (q, 1 - q) to (p, 1 - p), q = exp(old), p = exp(lp). 1 - p from expm1: near 1, where most
// tokens are, 1 - exp(lp) has no digits left.
at::Tensor BernoulliKl(const at::Tensor& lp_M, const at::Tensor& old_M) {
  constexpr double kLeast = 1e-8;  // as verl has it
  const at::Tensor rest_p_M = (-at::expm1(lp_M)).clamp_min(kLeast);
  const at::Tensor rest_q_M = (-at::expm1(old_M)).clamp_min(kLeast);
  return at::exp(old_M) * (old_M - lp_M) + rest_q_M * at::log(rest_q_M / rest_p_M);
}

// max(-A ratio, -A clip(ratio)), which PPO, GSPO and Clip-Cov share.
TokenLosses ClippedSurrogate(const at::Tensor& ratio_M, const at::Tensor& advantages_M,
                             const AlgorithmConfig& options) {
  const at::Tensor clipped_M = ratio_M.clamp(1.0 - options.clip_low, 1.0 + options.clip_high);
  TokenLosses losses;
  losses.loss_M = at::max(-advantages_M * ratio_M, -advantages_M * clipped_M);
  losses.clipped_low_M = (advantages_M < 0) & (ratio_M < 1.0 - options.clip_low);
  losses.clipped_high_M = (advantages_M > 0) & (ratio_M > 1.0 + options.clip_high);
  return losses;
}

// PPO (arXiv 1707.06347, Eq 7) with separate bounds (DAPO, arXiv 2503.14476, Eq 8) and dual clip
// (arXiv 1912.09729):
//   L = max(-A rho, -A clip(rho, 1 - clip_low, 1 + clip_high))
//   for A < 0 and dual_clip > 0: min(L, -A dual_clip)
TokenLosses PpoLoss(const PolicyTerms& terms, const AlgorithmConfig& options) {
  const at::Tensor ratio_M = at::exp(terms.log_ratio_M);
  TokenLosses losses = ClippedSurrogate(ratio_M, terms.advantages_M, options);
  if (options.dual_clip == 0) return losses;
  const at::Tensor negative_M = terms.advantages_M < 0;
  losses.loss_M = at::where(
      negative_M, at::min(losses.loss_M, -terms.advantages_M * options.dual_clip), losses.loss_M);
  losses.clipped_dual_M = negative_M & (ratio_M > options.dual_clip);
  return losses;
}

// CISPO (arXiv 2506.13585, Eq 4 and 5): -sg[clip(rho, 1 - clip_low, 1 + clip_high)] A lp.
TokenLosses CispoLoss(const PolicyTerms& terms, const AlgorithmConfig& options) {
  const at::Tensor ratio_M = at::exp(terms.log_ratio_M.detach());
  TokenLosses losses;
  losses.loss_M = -ratio_M.clamp(1.0 - options.clip_low, 1.0 + options.clip_high) *
                  terms.advantages_M * terms.logprobs_M;
  const at::Tensor pushed_M = terms.advantages_M != 0;
  losses.clipped_low_M = pushed_M & (ratio_M < 1.0 - options.clip_low);
  losses.clipped_high_M = pushed_M & (ratio_M > 1.0 + options.clip_high);
  return losses;
}

// SAPO (arXiv 2511.20347): -A (4 / tau) sigmoid(tau (rho - 1)), tau by the advantage's sign.
TokenLosses SapoLoss(const PolicyTerms& terms, const AlgorithmConfig& options) {
  const at::Tensor beyond_M = at::expm1(terms.log_ratio_M);
  const auto gate = [&](double tau) { return at::sigmoid(beyond_M * tau) * (4.0 / tau); };
  TokenLosses losses;
  losses.loss_M =
      -terms.advantages_M * at::where(terms.advantages_M > 0, gate(options.sapo.tau_positive),
                                      gate(options.sapo.tau_negative));
  return losses;
}

// GPG (arXiv 2504.02546): -A lp, the plain policy gradient. It has no ratio, so that off-policy it
// is biased unless a correction weights it.
TokenLosses GpgLoss(const PolicyTerms& terms, const AlgorithmConfig&) {
  TokenLosses losses;
  losses.loss_M = -terms.advantages_M * terms.logprobs_M;
  return losses;
}

// DPPO (arXiv 2602.04879): -A sg[min(rho, cap)] lp, and 0 for tokens on which the policies are too
// far apart in the direction that A pushes to. kDppoTv measures exp(lp) - exp(old), kDppoKl the KL
// divergence between the Bernoulli distributions of the token under both policies.
TokenLosses DppoLoss(const PolicyTerms& terms, const AlgorithmConfig& options) {
  const at::Tensor lp_M = terms.logprobs_M.detach();
  const at::Tensor& old_M = terms.old_logprobs_M;
  at::Tensor above_M, below_M;  // too far above, and below, the old policy
  if (options.loss == PolicyLoss::kDppoTv) {
    const at::Tensor gap_M = at::exp(lp_M) - at::exp(old_M);
    above_M = gap_M > options.clip_high;
    below_M = gap_M < -options.clip_low;
  } else {
    const at::Tensor kl_M = BernoulliKl(lp_M, old_M);
    above_M = (kl_M > options.clip_high) & (lp_M > old_M);
    below_M = (kl_M > options.clip_low) & (lp_M < old_M);
  }
  const at::Tensor positive_M = terms.advantages_M > 0;
  TokenLosses losses;
  losses.clipped_high_M = positive_M & above_M;
  losses.clipped_low_M = (terms.advantages_M < 0) & below_M;
  const at::Tensor ratio_M = at::exp(terms.log_ratio_M.detach());
  losses.clipped_dual_M = (terms.advantages_M != 0) & (ratio_M > options.dppo.cap);
  const at::Tensor loss_M =
      -terms.advantages_M * ratio_M.clamp_max(options.dppo.cap) * terms.logprobs_M;
  losses.loss_M = at::where(losses.clipped_high_M | losses.clipped_low_M, 0.0, loss_M);
  return losses;
}

// GSPO (arXiv 2507.18071, Eq 5 and 7): the bounds of PPO on s = exp(mean d over the completion),
// with the completion's mean advantage. `kGspoToken` (Eq 13 and 14) takes each token's own
// advantage, which is equal wherever the tokens of a completion share one. A token carries sg[s]
// exp(lp - sg[lp]): weighted 1 / T_i, these gradients add up to that of s.
TokenLosses GspoLoss(const PolicyTerms& terms, const AlgorithmConfig& options) {
  const at::Tensor log_s_M = terms.completions.Mean(terms.log_ratio_M);
  const at::Tensor s_M = at::exp(log_s_M + (terms.logprobs_M - terms.logprobs_M.detach()));
  const bool per_token = options.loss == PolicyLoss::kGspoToken;
  return ClippedSurrogate(
      s_M, per_token ? terms.advantages_M : terms.completions.Mean(terms.advantages_M), options);
}

// GMPO (arXiv 2507.20673, Eq 3 and 4): -B exp(mean c), where c is the log ratio clipped on the side
// that its advantage pushes to and B the completion's mean advantage. clip_low and clip_high bound
// the log ratio.
TokenLosses GmpoLoss(const PolicyTerms& terms, const AlgorithmConfig& options) {
  const at::Tensor& d_M = terms.log_ratio_M;
  const at::Tensor positive_M = terms.advantages_M > 0;
  const at::Tensor negative_M = terms.advantages_M < 0;
  at::Tensor clipped_M = at::where(positive_M, d_M.clamp_max(options.clip_high), d_M);
  clipped_M = at::where(negative_M, d_M.clamp_min(-options.clip_low), clipped_M);
  const at::Tensor log_mean_M = terms.completions.Mean(clipped_M);
  TokenLosses losses;
  losses.loss_M = -terms.completions.Mean(terms.advantages_M) *
                  at::exp(log_mean_M + (clipped_M - clipped_M.detach()));
  losses.clipped_low_M = negative_M & (d_M < -options.clip_low);
  losses.clipped_high_M = positive_M & (d_M > options.clip_high);
  return losses;
}

// Clip-Cov (arXiv 2505.22617): PPO without dual clip, and 0 for marked tokens.
TokenLosses ClipCovLoss(const PolicyTerms& terms, const AlgorithmConfig& options) {
  TokenLosses losses = ClippedSurrogate(at::exp(terms.log_ratio_M), terms.advantages_M, options);
  if (terms.marked_M.defined()) losses.loss_M = at::where(terms.marked_M, 0.0, losses.loss_M);
  return losses;
}

// KL-Cov (arXiv 2505.22617): -A rho, plus kl_cov.coef |d| for marked tokens.
TokenLosses KlCovLoss(const PolicyTerms& terms, const AlgorithmConfig& options) {
  TokenLosses losses;
  losses.loss_M = -terms.advantages_M * at::exp(terms.log_ratio_M);
  if (terms.marked_M.defined()) {
    losses.loss_M = losses.loss_M +
                    at::where(terms.marked_M, terms.log_ratio_M.abs() * options.kl_cov.coef, 0.0);
  }
  return losses;
}

}  // namespace

CompletionSums::CompletionSums(at::Tensor lengths_C, at::Tensor keep_M)
    : lengths_C_(std::move(lengths_C)), keep_M_(std::move(keep_M)) {}

// [M] float64.
at::Tensor CompletionSums::OverCompletion(const at::Tensor& x_M) const {
  BUTTRESS_CHECK(lengths_C_.defined(), "a loss over completions needs their lengths");
  const at::Tensor kept_M = at::where(keep_M_, x_M.detach().to(at::kDouble), 0.0);
  if (kept_M.numel() == 0) return kept_M;
  const at::Tensor sums_C =
      at::segment_reduce(kept_M, "sum", lengths_C_, /*indices=*/{}, /*offsets=*/{}, /*axis=*/0,
                         /*unsafe=*/true, /*initial=*/0.0);
  return at::repeat_interleave(sums_C, lengths_C_, 0, x_M.numel());
}

at::Tensor CompletionSums::Sum(const at::Tensor& x_M) const {
  return OverCompletion(x_M).to(at::kFloat);
}

at::Tensor CompletionSums::Mean(const at::Tensor& x_M) const {
  const at::Tensor kept_M = OverCompletion(keep_M_.to(at::kDouble));
  return (OverCompletion(x_M) / kept_M.clamp_min(1.0)).to(at::kFloat);
}

TokenLosses ComputeTokenLosses(const PolicyTerms& terms, const AlgorithmConfig& options) {
  switch (options.loss) {
    case PolicyLoss::kPpo:
    case PolicyLoss::kDecoupledPpo:
      return PpoLoss(terms, options);
    case PolicyLoss::kGspo:
    case PolicyLoss::kGspoToken:
      return GspoLoss(terms, options);
    case PolicyLoss::kCispo:
      return CispoLoss(terms, options);
    case PolicyLoss::kGmpo:
      return GmpoLoss(terms, options);
    case PolicyLoss::kSapo:
      return SapoLoss(terms, options);
    case PolicyLoss::kGpg:
      return GpgLoss(terms, options);
    case PolicyLoss::kDppoTv:
    case PolicyLoss::kDppoKl:
      return DppoLoss(terms, options);
    case PolicyLoss::kClipCov:
      return ClipCovLoss(terms, options);
    case PolicyLoss::kKlCov:
      return KlCovLoss(terms, options);
  }
  return PpoLoss(terms, options);
}

}  // namespace buttress
