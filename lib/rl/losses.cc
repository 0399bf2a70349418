// M: trained tokens of the micro-batch.
#include "lib/rl/losses.h"

#include <array>

#include <torch/types.h>

#include "lib/base/check.h"

namespace buttress {
namespace {

constexpr double kMaxLogRatio = 20.0;
constexpr double kMaxK3 = 10.0;

using Metrics = std::array<at::Tensor, static_cast<std::size_t>(LossMetric::kCount)>;

void Put(Metrics& metrics, LossMetric which, const at::Tensor& sum) {
  metrics[static_cast<std::size_t>(which)] = sum.detach().to(at::kDouble);
}

// `x` in float32, and 0 where a token does not count: where() gives such tokens a gradient of exactly 0 even if x is infinite there.
at::Tensor Kept(const at::Tensor& x, const at::Tensor& keep_M) {
  BUTTRESS_CHECK(x.defined() && x.sizes() == keep_M.sizes(), "all tensors of a loss have shape [M]");
  return at::where(keep_M, x.to(at::kFloat), 0.0);
}

at::Tensor PolicyLoss(const at::Tensor& ratio_M, const at::Tensor& advantages_M, const LossOptions& options, Metrics& metrics) {
  const at::Tensor clipped_M = ratio_M.clamp(1.0 - options.clip_low, 1.0 + options.clip_high);
  at::Tensor loss_M = at::max(-advantages_M * ratio_M, -advantages_M * clipped_M);
  const at::Tensor negative_M = advantages_M < 0;
  at::Tensor dual_M = at::zeros_like(negative_M);
  if (options.dual_clip > 0) {
    loss_M = at::where(negative_M, at::min(loss_M, -advantages_M * options.dual_clip), loss_M);
    dual_M = negative_M & (ratio_M > options.dual_clip);
  }
  Put(metrics, LossMetric::kClippedLow, (negative_M & (ratio_M < 1.0 - options.clip_low)).sum());
  Put(metrics, LossMetric::kClippedHigh, ((advantages_M > 0) & (ratio_M > 1.0 + options.clip_high)).sum());
  Put(metrics, LossMetric::kClippedDual, dual_M.sum());
  return loss_M;
}

at::Tensor KlLoss(const at::Tensor& logprobs_M, const at::Tensor& ref_logprobs_M, KlEstimator estimator) {
  const at::Tensor x_M = logprobs_M - ref_logprobs_M;
  if (estimator == KlEstimator::kK1) return x_M;
  if (estimator == KlEstimator::kK2) return x_M * x_M * 0.5;
  const at::Tensor bounded_M = x_M.clamp(-kMaxLogRatio, kMaxLogRatio);
  return (at::exp(-bounded_M) + bounded_M - 1.0).clamp(-kMaxK3, kMaxK3);
}

}  // namespace

Result<LossOptions> MakeLossOptions(const AlgorithmConfig& algorithm) {
  LossOptions options;
  options.clip_low = algorithm.clip_low;
  options.clip_high = algorithm.clip_high;
  options.dual_clip = algorithm.dual_clip;
  options.kl_coef = algorithm.kl_coef;
  options.entropy_coef = algorithm.entropy_coef;
  if (algorithm.kl_estimator == "k1") {
    options.kl_estimator = KlEstimator::kK1;
  } else if (algorithm.kl_estimator == "k2") {
    options.kl_estimator = KlEstimator::kK2;
  } else if (algorithm.kl_estimator == "k3") {
    options.kl_estimator = KlEstimator::kK3;
  } else {
    return InvalidArgument("algorithm.kl_estimator = '" + algorithm.kl_estimator + "' is not known; choose one of: k1, k2, k3");
  }
  return options;
}

at::Tensor LossOutput::metric(LossMetric which) const { return metrics[static_cast<std::int64_t>(which)]; }

LossOutput ComputeLoss(const LossInput& input, const LossOptions& options) {
  BUTTRESS_CHECK(input.logprobs_M.defined() && input.logprobs_M.dim() == 1, "all tensors of a loss have shape [M]");
  BUTTRESS_CHECK(input.old_logprobs_M.defined() && input.old_logprobs_M.sizes() == input.logprobs_M.sizes(),
                 "all tensors of a loss have shape [M]");
  Metrics metrics;
  const at::Tensor finite_M = at::isfinite(input.old_logprobs_M);
  const at::Tensor counted_M = input.mask_M.defined() ? input.mask_M.to(at::kBool) : at::ones_like(finite_M);
  const at::Tensor keep_M = counted_M & finite_M;
  Put(metrics, LossMetric::kTokens, keep_M.sum());
  Put(metrics, LossMetric::kDropped, (counted_M & ~finite_M).sum());

  const at::Tensor logprobs_M = Kept(input.logprobs_M, keep_M);
  const at::Tensor old_logprobs_M = Kept(input.old_logprobs_M, keep_M);
  const at::Tensor advantages_M = Kept(input.advantages_M, keep_M);
  const at::Tensor weights_M = Kept(input.weights_M, keep_M);
  const at::Tensor log_ratio_M = (logprobs_M - old_logprobs_M).clamp(-kMaxLogRatio, kMaxLogRatio);
  const at::Tensor ratio_M = at::exp(log_ratio_M);

  const at::Tensor policy_loss = (weights_M * PolicyLoss(ratio_M, advantages_M, options, metrics)).sum();
  at::Tensor loss = policy_loss;
  Put(metrics, LossMetric::kPolicyLoss, policy_loss);
  const at::Tensor none = at::zeros({}, policy_loss.options().requires_grad(false));

  BUTTRESS_CHECK(options.kl_coef == 0 || input.ref_logprobs_M.defined(), "kl_coef > 0 needs the start model's log-probs");
  at::Tensor kl_loss = none;
  at::Tensor ref_kl = none;
  if (input.ref_logprobs_M.defined()) {
    const at::Tensor kl_M = KlLoss(logprobs_M, Kept(input.ref_logprobs_M, keep_M), options.kl_estimator);
    ref_kl = kl_M.sum();
    if (options.kl_coef > 0) {
      kl_loss = (weights_M * kl_M).sum() * options.kl_coef;
      loss = loss + kl_loss;
    }
  }
  Put(metrics, LossMetric::kRefKl, ref_kl);
  Put(metrics, LossMetric::kKlLoss, kl_loss);

  BUTTRESS_CHECK(options.entropy_coef == 0 || input.entropy_M.defined(), "entropy_coef > 0 needs the policy's entropy");
  at::Tensor bonus = none;
  at::Tensor entropy = none;
  if (input.entropy_M.defined()) {
    const at::Tensor entropy_M = Kept(input.entropy_M, keep_M);
    entropy = entropy_M.sum();
    if (options.entropy_coef > 0) {
      bonus = (weights_M * entropy_M).sum() * options.entropy_coef;
      loss = loss - bonus;
    }
  }
  Put(metrics, LossMetric::kEntropy, entropy);
  Put(metrics, LossMetric::kEntropyBonus, bonus);

  const at::Tensor kept_ratio_M = at::where(keep_M, ratio_M, 0.0);
  Put(metrics, LossMetric::kRatio, kept_ratio_M.sum());
  Put(metrics, LossMetric::kRatioSquared, (kept_ratio_M * kept_ratio_M).sum());
  Put(metrics, LossMetric::kSamplerKlK1, -log_ratio_M.sum());
  Put(metrics, LossMetric::kSamplerKlK3, (ratio_M - 1.0 - log_ratio_M).sum());
  Put(metrics, LossMetric::kSamplerGap, log_ratio_M.abs().sum());
  return {loss, at::stack(metrics)};
}

}  // namespace buttress
