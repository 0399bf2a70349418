#include "learner/loss_report.h"

#include "lib/base/check.h"

namespace buttress {

LossReport MakeLossReport(std::span<const double> sums) {
  BUTTRESS_CHECK(sums.size() == kLossSums, "sums of LossMetric and of importance weights");
  const auto sum = [&](LossMetric which) { return sums[static_cast<std::size_t>(which)]; };
  const double tokens = sum(LossMetric::kTokens);
  const auto mean = [&](LossMetric which) { return tokens > 0 ? sum(which) / tokens : 0.0; };
  LossReport report;
  report.tokens = static_cast<std::int64_t>(tokens);
  report.dropped = static_cast<std::int64_t>(sum(LossMetric::kDropped));
  report.policy_loss = sum(LossMetric::kPolicyLoss);
  report.kl_loss = sum(LossMetric::kKlLoss);
  report.entropy_bonus = sum(LossMetric::kEntropyBonus);
  report.entropy = mean(LossMetric::kEntropy);
  report.kl_k1 = mean(LossMetric::kSamplerKlK1);
  report.kl_k3 = mean(LossMetric::kSamplerKlK3);
  report.ref_kl = mean(LossMetric::kRefKl);
  report.clip_low = mean(LossMetric::kClippedLow);
  report.clip_high = mean(LossMetric::kClippedHigh);
  report.clip_dual = mean(LossMetric::kClippedDual);
  report.marked = mean(LossMetric::kMarked);
  const auto counts = sums.subspan(static_cast<std::size_t>(LossMetric::kCount));
  report.importance = {
      mean(LossMetric::kRatio),
      EffectiveShare(tokens, sum(LossMetric::kRatio), sum(LossMetric::kRatioSquared)),
      WeightQuantile(counts, 0.01), WeightQuantile(counts, 0.5), WeightQuantile(counts, 0.99)};
  report.correction = {
      mean(LossMetric::kCorrection),
      EffectiveShare(tokens, sum(LossMetric::kCorrection), sum(LossMetric::kCorrectionSquared)),
      mean(LossMetric::kCorrectionTruncated), mean(LossMetric::kCorrectionMasked)};
  return report;
}

}  // namespace buttress
