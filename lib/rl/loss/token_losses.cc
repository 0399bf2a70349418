// Losses of single tokens: PPO, CISPO, SAPO, GPG, DPPO.
//
// M: tokens of the micro-batch. policy_losses.h has the formulas.
#include <torch/types.h>

#include "lib/rl/loss/policy_losses.h"

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

}  // namespace

TokenLosses ClippedSurrogate(const at::Tensor& ratio_M, const at::Tensor& advantages_M,
                             const LossOptions& options) {
  const at::Tensor clipped_M = ratio_M.clamp(1.0 - options.clip_low, 1.0 + options.clip_high);
  TokenLosses losses;
  losses.loss_M = at::max(-advantages_M * ratio_M, -advantages_M * clipped_M);
  losses.clipped_low_M = (advantages_M < 0) & (ratio_M < 1.0 - options.clip_low);
  losses.clipped_high_M = (advantages_M > 0) & (ratio_M > 1.0 + options.clip_high);
  return losses;
}

TokenLosses PpoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor ratio_M = at::exp(terms.log_ratio_M);
  TokenLosses losses = ClippedSurrogate(ratio_M, terms.advantages_M, options);
  if (options.dual_clip == 0) return losses;
  const at::Tensor negative_M = terms.advantages_M < 0;
  losses.loss_M = at::where(
      negative_M, at::min(losses.loss_M, -terms.advantages_M * options.dual_clip), losses.loss_M);
  losses.clipped_dual_M = negative_M & (ratio_M > options.dual_clip);
  return losses;
}

TokenLosses CispoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor ratio_M = at::exp(terms.log_ratio_M.detach());
  TokenLosses losses;
  losses.loss_M = -ratio_M.clamp(1.0 - options.clip_low, 1.0 + options.clip_high) *
                  terms.advantages_M * terms.logprobs_M;
  const at::Tensor pushed_M = terms.advantages_M != 0;
  losses.clipped_low_M = pushed_M & (ratio_M < 1.0 - options.clip_low);
  losses.clipped_high_M = pushed_M & (ratio_M > 1.0 + options.clip_high);
  return losses;
}

TokenLosses SapoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor beyond_M = at::expm1(terms.log_ratio_M);
  const auto gate = [&](double tau) { return at::sigmoid(beyond_M * tau) * (4.0 / tau); };
  TokenLosses losses;
  losses.loss_M =
      -terms.advantages_M * at::where(terms.advantages_M > 0, gate(options.sapo_tau_positive),
                                      gate(options.sapo_tau_negative));
  return losses;
}

TokenLosses GpgLoss(const PolicyTerms& terms, const LossOptions&) {
  TokenLosses losses;
  losses.loss_M = -terms.advantages_M * terms.logprobs_M;
  return losses;
}

TokenLosses DppoLoss(const PolicyTerms& terms, const LossOptions& options) {
  const at::Tensor lp_M = terms.logprobs_M.detach();
  const at::Tensor& old_M = terms.old_logprobs_M;
  at::Tensor above_M, below_M;  // too far above, and below, the old policy
  if (options.policy == PolicyLoss::kDppoTv) {
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
  losses.clipped_dual_M = (terms.advantages_M != 0) & (ratio_M > options.dppo_cap);
  const at::Tensor loss_M =
      -terms.advantages_M * ratio_M.clamp_max(options.dppo_cap) * terms.logprobs_M;
  losses.loss_M = at::where(losses.clipped_high_M | losses.clipped_low_M, 0.0, loss_M);
  return losses;
}

}  // namespace buttress
