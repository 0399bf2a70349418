#include "learner/step_sums.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

TEST(StepSumsTest, SumsOfRanksBecomeSharesAndQuantiles) {
  StepSums sums;
  sums[LossMetric::kTokens] = 8;
  sums[LossMetric::kDropped] = 2;
  sums[LossMetric::kPolicyLoss] = 0.5;
  sums[LossMetric::kKlLoss] = 0.25;
  sums[LossMetric::kEntropyBonus] = 0.125;
  sums[LossMetric::kClippedHigh] = 2;
  sums[LossMetric::kRatio] = 8;
  sums[LossMetric::kRatioSquared] = 16;
  sums[LossMetric::kCorrection] = 6;
  sums[LossMetric::kCorrectionSquared] = 6;
  sums[LossMetric::kCorrectionMasked] = 2;
  sums.values[StepSums::kWeightCounts + kWeightBins / 2] = 7;  // weights of 1
  sums.values[StepSums::kWeightCounts + kWeightBins - 1] = 1;
  sums[StepSums::kSampledNats] = 3;
  sums[StepSums::kSampledTokens] = 12;
  sums[StepSums::kResponses] = 8;
  sums[StepSums::kDistinct] = 2;
  sums[StepSums::kFormatted] = 6;
  StepMeasurements measured;
  MeasureSums(sums, 1, measured);
  EXPECT_EQ(measured.trained_tokens, 8);
  EXPECT_EQ(measured.dropped_tokens, 2);
  EXPECT_EQ(measured.loss, 0.625);
  EXPECT_EQ(measured.clip_high, 0.25);
  EXPECT_EQ(measured.importance_mean, 1);
  EXPECT_EQ(measured.importance_ess, 0.5);
  EXPECT_EQ(measured.importance_p50, 1);
  EXPECT_GT(measured.importance_p99, 1e6);
  EXPECT_EQ(measured.correction_mean, 0.75);
  EXPECT_EQ(measured.correction_ess, 0.75);
  EXPECT_EQ(measured.correction_truncated, 0);
  EXPECT_EQ(measured.correction_masked, 0.25);
  EXPECT_EQ(measured.entropy, 0.25);
  EXPECT_EQ(measured.distinct_share, 0.25);
  EXPECT_EQ(measured.format_share, 0.75);
}

TEST(StepSumsTest, AStepWithoutTokensIsAllZero) {
  StepMeasurements measured;
  MeasureSums(StepSums(), 1, measured);
  for (const Measurement& row : MeasurementTable()) {
    if (row.name.starts_with("gate.")) continue;
    EXPECT_EQ(measured.*row.value, 0) << row.name;
  }
}

TEST(StepSumsTest, RatesAreOverComparableGroups) {
  BatchSummary batch;
  // groups, all correct, all wrong, other, mixed, unscorable
  batch.collapse = {8, 2, 1, 0, 3, 2};
  batch.tokens = 10;
  batch.zero_advantage_tokens = 4;
  batch.gradient = {.all = 3, .virtual_samples = 1};
  StepSums sums;
  sums[StepSums::kKlMass] = 1;
  StepMeasurements measured;
  MeasureBatch(batch, sums, 1, measured);
  EXPECT_DOUBLE_EQ(measured.acr, 0.5);  // 3 / 6
  EXPECT_DOUBLE_EQ(measured.acr_all_correct, 2.0 / 6);
  EXPECT_DOUBLE_EQ(measured.zero_advantage_share, 0.4);
  EXPECT_DOUBLE_EQ(measured.collapsed_gradient_share, 0.25);
  EXPECT_DOUBLE_EQ(measured.collapsed_gradient_virtual, 0.25);
}

}  // namespace
}  // namespace buttress
