// M: trained tokens of the micro-batch.
#include "lib/rl/loss/loss.h"

#include <torch/types.h>

#include <array>

#include "lib/base/report/check.h"
#include "lib/rl/loss/kl.h"
#include "lib/rl/loss/weight_statistics.h"

namespace buttress {
namespace {

// The sums of LossOutput::metrics; a sum that is never put stays 0.
class MetricSums {
 public:
  explicit MetricSums(const at::Tensor& like) {
    sums_.fill(at::zeros({}, like.options().dtype(at::kDouble).requires_grad(false)));
  }

  void Put(LossMetric which, const at::Tensor& sum) {
    sums_[static_cast<std::size_t>(which)] = sum.detach().to(at::kDouble);
  }

  // Number of kept tokens in `set_M`; an undefined one has none.
  void PutCount(LossMetric which, const at::Tensor& set_M, const at::Tensor& keep_M) {
    if (set_M.defined()) Put(which, (set_M & keep_M).sum());
  }

  at::Tensor Stack() const { return at::stack(sums_); }

 private:
  std::array<at::Tensor, static_cast<std::size_t>(LossMetric::kCount)> sums_;
};

// `x` in float32, with 0 for tokens that do not count: where() gives such tokens a gradient of
// exactly 0 even if x is infinite there.
at::Tensor Kept(const at::Tensor& x, const at::Tensor& keep_M) {
  BUTTRESS_CHECK(x.defined() && x.sizes() == keep_M.sizes(),
                 "all tensors of a loss have shape [M]");
  return at::where(keep_M, x.to(at::kFloat), 0.0);
}

at::Tensor CountWeights(const at::Tensor& log_weight_M, const at::Tensor& keep_M) {
  const double range = WeightBinRange();
  const at::Tensor place_M = at::asinh(log_weight_M.detach() / kWeightScale).clamp(-range, range);
  // histc ignores values outside its range.
  const at::Tensor counted_M = at::where(keep_M, place_M, 2 * range);
  return at::histc(counted_M, static_cast<std::int64_t>(kWeightBins), -range, range)
      .to(at::kDouble);
}

at::Tensor OldLogprobs(const LossInput& input, const AlgorithmConfig& options,
                       const at::Tensor& keep_M) {
  if (input.old_logprobs_M.defined()) return Kept(input.old_logprobs_M, keep_M);
  return Kept(options.old_policy == OldPolicy::kSampler ? input.sampler_logprobs_M
                                                        : input.logprobs_M.detach(),
              keep_M);
}

// Weights for the gap between the policy that sampled and the old policy of the ratio: another
// engine, other kernels, older weights. All [M], without gradient.
struct CorrectionWeights {
  at::Tensor weights_M;    // float32; multiplies a token's policy loss, outside every clip
  at::Tensor truncated_M;  // bool: w was above the cap
  at::Tensor masked_M;     // bool: w was outside the bounds and the weight is 0
};

at::Tensor LogWeight(const at::Tensor& gap_M, const CompletionSums& completions,
                     CorrectionLevel level) {
  switch (level) {
    case CorrectionLevel::kToken:
      return gap_M;
    case CorrectionLevel::kSequence:
      return completions.Sum(gap_M);
    case CorrectionLevel::kGeometric:
      return completions.Mean(gap_M);
  }
  return gap_M;
}

// log w = old_logprobs - sampler_logprobs of the token, or its sum or mean over the completion, by
// level, clamped to +-20. Weights by mode:
//   is      w
//   tis     min(w, cap)
//   mis     w, 0 above cap
//   icepop  w, 0 outside [floor, cap]
// TIS: Yao et al., "Your efficient RL framework secretly brings you off-policy RL training".
// IcePop: Ring-1T, arXiv 2510.18855. With mis this is decoupled PPO as AReaL filters it (arXiv
// 2505.24298, Eq 5). Denominators keep masked tokens. REQUIRES: a mode other than kNone.
CorrectionWeights Correct(const at::Tensor& old_logprobs_M, const at::Tensor& sampler_logprobs_M,
                          const CompletionSums& completions, const AlgorithmConfig& options) {
  BUTTRESS_CHECK(options.correction.mode != CorrectionMode::kNone, "no correction was asked for");
  const at::Tensor gap_M = old_logprobs_M.detach() - sampler_logprobs_M;
  const at::Tensor w_M = at::exp(
      LogWeight(gap_M, completions, options.correction.level).clamp(-kMaxLogRatio, kMaxLogRatio));
  const at::Tensor above_M = w_M > options.correction.cap;
  const at::Tensor none_M = at::zeros_like(above_M);
  switch (options.correction.mode) {
    case CorrectionMode::kNone:
    case CorrectionMode::kIs:
      return {w_M, none_M, none_M};
    case CorrectionMode::kTis:
      return {w_M.clamp_max(options.correction.cap), above_M, none_M};
    case CorrectionMode::kMis:
      return {at::where(above_M, 0.0, w_M), none_M, above_M};
    case CorrectionMode::kIcePop: {
      const at::Tensor outside_M = above_M | (w_M < options.correction.floor);
      return {at::where(outside_M, 0.0, w_M), none_M, outside_M};
    }
  }
  return {w_M, none_M, none_M};
}

// Weighted sum of the policy losses over the micro-batch.
at::Tensor PolicyLossSum(const PolicyTerms& terms, const at::Tensor& sampler_logprobs_M,
                         at::Tensor weights_M, const AlgorithmConfig& options,
                         const at::Tensor& keep_M, MetricSums& metrics) {
  const TokenLosses losses = ComputeTokenLosses(terms, options);
  metrics.PutCount(LossMetric::kClippedLow, losses.clipped_low_M, keep_M);
  metrics.PutCount(LossMetric::kClippedHigh, losses.clipped_high_M, keep_M);
  metrics.PutCount(LossMetric::kClippedDual, losses.clipped_dual_M, keep_M);
  metrics.PutCount(LossMetric::kMarked, terms.marked_M, keep_M);
  if (options.correction.mode != CorrectionMode::kNone) {
    const CorrectionWeights correction =
        Correct(terms.old_logprobs_M, sampler_logprobs_M, terms.completions, options);
    const at::Tensor applied_M = at::where(keep_M, correction.weights_M, 0.0);
    metrics.Put(LossMetric::kCorrection, applied_M.sum());
    metrics.Put(LossMetric::kCorrectionSquared, (applied_M * applied_M).sum());
    metrics.PutCount(LossMetric::kCorrectionTruncated, correction.truncated_M, keep_M);
    metrics.PutCount(LossMetric::kCorrectionMasked, correction.masked_M, keep_M);
    weights_M = weights_M * applied_M;
  }
  const at::Tensor sum = (weights_M * losses.loss_M).sum();
  metrics.Put(LossMetric::kPolicyLoss, sum);
  return sum;
}

void MeasureSampler(const at::Tensor& log_weight_M, const at::Tensor& keep_M, MetricSums& metrics) {
  const at::Tensor beyond_M = at::expm1(log_weight_M);
  const at::Tensor weight_M = at::where(keep_M, beyond_M + 1.0, 0.0);
  metrics.Put(LossMetric::kRatio, weight_M.sum());
  metrics.Put(LossMetric::kRatioSquared, (weight_M * weight_M).sum());
  metrics.Put(LossMetric::kSamplerKlK1, -log_weight_M.sum());
  metrics.Put(LossMetric::kSamplerKlK3, (beyond_M - log_weight_M).sum());
}

}  // namespace

double KlLossCoef(const AlgorithmConfig& algorithm) {
  return algorithm.kl_in == KlPlace::kLoss ? algorithm.kl_coef : 0;
}

at::Tensor LossOutput::metric(LossMetric which) const {
  return metrics[static_cast<std::int64_t>(which)];
}

LossOutput ComputeLoss(const LossInput& input, const AlgorithmConfig& options) {
  BUTTRESS_CHECK(input.logprobs_M.defined() && input.logprobs_M.dim() == 1,
                 "all tensors of a loss have shape [M]");
  BUTTRESS_CHECK(input.sampler_logprobs_M.defined() &&
                     input.sampler_logprobs_M.sizes() == input.logprobs_M.sizes(),
                 "all tensors of a loss have shape [M]");
  const double kl_coef = KlLossCoef(options);
  BUTTRESS_CHECK(kl_coef == 0 || input.ref_logprobs_M.defined(),
                 "kl_coef > 0 needs the start model's log-probs");
  BUTTRESS_CHECK(options.entropy_coef == 0 || input.entropy_M.defined(),
                 "entropy_coef > 0 needs the policy's entropy");
  MetricSums metrics(input.logprobs_M);
  const at::Tensor keep_M = at::isfinite(input.sampler_logprobs_M);
  metrics.Put(LossMetric::kTokens, keep_M.sum());
  metrics.Put(LossMetric::kDropped, (~keep_M).sum());

  const at::Tensor logprobs_M = Kept(input.logprobs_M, keep_M);
  const at::Tensor sampler_logprobs_M = Kept(input.sampler_logprobs_M, keep_M);
  const at::Tensor old_logprobs_M = OldLogprobs(input, options, keep_M);
  const at::Tensor weights_M = Kept(input.weights_M, keep_M);
  const CompletionSums completions(input.lengths_C, keep_M);
  const PolicyTerms terms{logprobs_M,
                          old_logprobs_M,
                          (logprobs_M - old_logprobs_M).clamp(-kMaxLogRatio, kMaxLogRatio),
                          Kept(input.advantages_M, keep_M),
                          input.marked_M,
                          completions};
  at::Tensor loss = PolicyLossSum(terms, sampler_logprobs_M, weights_M, options, keep_M, metrics);

  if (input.ref_logprobs_M.defined()) {
    const at::Tensor kl_M =
        KlEstimate(logprobs_M, Kept(input.ref_logprobs_M, keep_M), options.kl_estimator);
    metrics.Put(LossMetric::kRefKl, kl_M.sum());
    if (kl_coef > 0) {
      const at::Tensor kl_loss = (weights_M * kl_M).sum() * kl_coef;
      metrics.Put(LossMetric::kKlLoss, kl_loss);
      loss = loss + kl_loss;
    }
  }
  if (input.entropy_M.defined()) {
    const at::Tensor entropy_M = Kept(input.entropy_M, keep_M);
    metrics.Put(LossMetric::kEntropy, entropy_M.sum());
    if (options.entropy_coef > 0) {
      const at::Tensor bonus = (weights_M * entropy_M).sum() * options.entropy_coef;
      metrics.Put(LossMetric::kEntropyBonus, bonus);
      loss = loss - bonus;
    }
  }
  const at::Tensor log_weight_M =
      (logprobs_M - sampler_logprobs_M).detach().clamp(-kMaxLogRatio, kMaxLogRatio);
  MeasureSampler(log_weight_M, keep_M, metrics);
  const at::Tensor log_ratio_M = terms.log_ratio_M.detach();
  metrics.Put(LossMetric::kOldKl, (at::expm1(log_ratio_M) - log_ratio_M).sum());
  return {loss, metrics.Stack(), CountWeights(log_weight_M, keep_M)};
}

}  // namespace buttress
