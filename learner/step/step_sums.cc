#include "learner/step/step_sums.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <vector>

#include "lib/experience/episodes.h"

namespace buttress {
namespace {

double Ratio(double part, double whole) { return StepMeasurements::Ratio(part, whole); }

double Number(std::int64_t count) { return static_cast<double>(count); }

// The smallest age that `share` of the tokens do not exceed.
double AgeQuantile(std::span<const double> counts, double tokens, double share) {
  double below = 0;
  for (std::size_t age = 0; age < counts.size(); ++age) {
    below += counts[age];
    if (below > 0 && below >= share * tokens) return static_cast<double>(age);
  }
  return StepMeasurements::kNotMeasured;
}

void MeasureAges(const StepSums& sums, StepMeasurements& measured) {
  const auto counts = std::span(sums.values).subspan(StepSums::kAgeCounts, StepSums::kAgeBins);
  const double tokens = std::accumulate(counts.begin(), counts.end(), 0.0);
  measured.accepted_tokens = tokens;
  measured.token_age_mean = Ratio(sums[StepSums::kAgeSum], tokens);
  measured.token_age_p50 = AgeQuantile(counts, tokens, 0.5);
  measured.token_age_p99 = AgeQuantile(counts, tokens, 0.99);
  measured.freshness = Ratio(sums[StepSums::kFreshTokens], tokens);
}

}  // namespace

void AppendTrainedLogprobs(const v1::Group& group, int i, std::vector<float>& logprobs) {
  const std::span<const float> all = LogprobsOf(group, i);
  for (const TokenSpan& span : TrainedSpansOf(group, i))
    logprobs.insert(logprobs.end(), all.begin() + span.begin, all.begin() + span.end);
}

// A model that was fitted to a format gives few distinct responses, all of them well formed.
void StepSums::AddGroup(const v1::Group& group) {
  std::set<std::vector<std::int32_t>> seen;
  std::vector<float> logprobs;
  for (int i = 0; i < Completions(group.head()); ++i) {
    const Outcome outcome = OutcomeOf(group.head(), i);
    if (outcome == Outcome::kUnscorable) continue;
    AppendTrainedLogprobs(group, i, logprobs);
    if (!IsRoot(group.head(), i)) continue;
    const std::span<const std::int32_t> tokens = TokensOf(group, i);
    values[kResponses] += 1;
    values[kDistinct] += seen.emplace(tokens.begin(), tokens.end()).second ? 1 : 0;
    values[kFormatted] += ExtractedAnswerOf(group, i).empty() ? 0 : 1;
    const Outcome second = SecondOutcomeOf(group, i);
    if (second != Outcome::kCorrect && second != Outcome::kWrong) continue;
    values[kTwiceVerified] += 1;
    values[kDisagreed] += outcome == second ? 0 : 1;
  }
  for (const float logprob : logprobs) values[kSampledNats] -= logprob;
  values[kSampledTokens] += Number(static_cast<std::int64_t>(logprobs.size()));
}

void StepSums::AddAges(const v1::Group& group, int i, std::int64_t step) {
  const std::vector<TokenSpan> trained = TrainedSpansOf(group, i);
  for (const auto& [sampled, version] : VersionSpansOf(group, i)) {
    std::int64_t tokens = 0;
    for (const TokenSpan& span : trained)
      tokens += std::max(0, std::min(sampled.end, span.end) - std::max(sampled.begin, span.begin));
    const auto trained_steps = static_cast<std::int64_t>(group.head().versions(version).step());
    const std::int64_t age = std::max<std::int64_t>(0, step - 1 - trained_steps);
    const auto bin = static_cast<std::size_t>(std::min<std::int64_t>(age, kAgeBins - 1));
    values[kAgeCounts + bin] += Number(tokens);
    values[kAgeSum] += Number(tokens * age);
    values[kFreshTokens] += Number(tokens) / Number(1 + age);
  }
}

void StepSums::Add(const StepSums& other) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
}

double StepSums::AddLosses(const LossSums& sums, const at::Tensor& scalar) {
  std::vector<at::Tensor> all = {scalar.view(1)};
  if (sums.losses().defined()) all.push_back(sums.losses());
  if (sums.kl_mass().defined()) all.push_back(sums.kl_mass());
  const at::Tensor host = at::cat(all).to(at::kCPU);
  const double* next = host.const_data_ptr<double>();
  const double first = *next++;
  for (std::size_t i = 0; sums.losses().defined() && i < kSampledNats; ++i) values[i] += *next++;
  if (sums.kl_mass().defined()) {
    values[kKlMass] += next[0];
    values[kConstantKlMass] += next[1];
  }
  return first;
}

void LossSums::Add(const LossOutput& loss) {
  const at::Tensor sums = at::cat({loss.metrics, loss.weight_counts});
  losses_ = losses_.defined() ? losses_ + sums : sums;
}

void LossSums::AddKlMass(const at::Tensor& mass) {
  kl_mass_ = kl_mass_.defined() ? kl_mass_ + mass : mass;
}

void MeasureSums(const StepSums& sums, double updates, StepMeasurements& measured) {
  using enum LossMetric;
  const double tokens = sums[kTokens];
  const auto mean = [&](LossMetric which) { return Ratio(sums[which], tokens); };
  measured.trained_tokens = tokens;
  measured.dropped_tokens = sums[kDropped];
  measured.policy_loss = Ratio(sums[kPolicyLoss], updates);
  measured.kl_loss = Ratio(sums[kKlLoss], updates);
  measured.entropy_bonus = Ratio(sums[kEntropyBonus], updates);
  measured.loss = measured.policy_loss + measured.kl_loss - measured.entropy_bonus;
  measured.entropy_exact = mean(kEntropy);
  measured.kl = mean(kSamplerKlK3);
  measured.kl_k1 = mean(kSamplerKlK1);
  measured.old_kl = mean(kOldKl);
  measured.ref_kl = mean(kRefKl);
  measured.clip_low = mean(kClippedLow);
  measured.clip_high = mean(kClippedHigh);
  measured.clip_dual = mean(kClippedDual);
  measured.marked = mean(kMarked);

  const auto counts = std::span(sums.values).subspan(StepSums::kWeightCounts, kWeightBins);
  measured.importance_mean = mean(kRatio);
  measured.importance_ess = EffectiveShare(tokens, sums[kRatio], sums[kRatioSquared]);
  measured.importance_p01 = WeightQuantile(counts, 0.01);
  measured.importance_p50 = WeightQuantile(counts, 0.5);
  measured.importance_p99 = WeightQuantile(counts, 0.99);
  measured.correction_mean = mean(kCorrection);
  measured.correction_ess = EffectiveShare(tokens, sums[kCorrection], sums[kCorrectionSquared]);
  measured.correction_truncated = mean(kCorrectionTruncated);
  measured.correction_masked = mean(kCorrectionMasked);

  MeasureAges(sums, measured);
  measured.entropy = Ratio(sums[StepSums::kSampledNats], sums[StepSums::kSampledTokens]);
  measured.distinct_share = Ratio(sums[StepSums::kDistinct], sums[StepSums::kResponses]);
  measured.format_share = Ratio(sums[StepSums::kFormatted], sums[StepSums::kResponses]);
  measured.twice_verified = sums[StepSums::kTwiceVerified];
  measured.disagreement = Ratio(sums[StepSums::kDisagreed], sums[StepSums::kTwiceVerified]);
}

void MeasureBatch(const BatchSummary& batch, const StepSums& sums, double epochs,
                  StepMeasurements& measured) {
  static_cast<BatchMeasurements&>(measured) = batch;
  GradientMass gradient = batch.gradient;
  gradient.all += Ratio(sums[StepSums::kKlMass], epochs);
  gradient.kl = Ratio(sums[StepSums::kConstantKlMass], epochs);
  measured.collapsed_gradient_share = gradient.share(gradient.collapsed());
  measured.collapsed_gradient_virtual = gradient.share(gradient.virtual_samples);
  measured.collapsed_gradient_shaping = gradient.share(gradient.shaping);
  measured.collapsed_gradient_estimator = gradient.share(gradient.estimator);
  measured.collapsed_gradient_kl = gradient.share(gradient.kl);
}

}  // namespace buttress
