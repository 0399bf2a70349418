#include "learner/loss_report.h"

#include <gtest/gtest.h>

#include <vector>

namespace buttress {
namespace {

TEST(LossReportTest, SumsOfRanksBecomeSharesAndQuantiles) {
  std::vector<double> sums(kLossSums, 0.0);
  const auto put = [&](LossMetric which, double sum) {
    sums[static_cast<std::size_t>(which)] = sum;
  };
  put(LossMetric::kTokens, 8);
  put(LossMetric::kDropped, 2);
  put(LossMetric::kPolicyLoss, 0.5);
  put(LossMetric::kKlLoss, 0.25);
  put(LossMetric::kEntropyBonus, 0.125);
  put(LossMetric::kClippedHigh, 2);
  put(LossMetric::kRatio, 8);
  put(LossMetric::kRatioSquared, 16);
  put(LossMetric::kCorrection, 6);
  put(LossMetric::kCorrectionSquared, 6);
  put(LossMetric::kCorrectionMasked, 2);
  const std::size_t counts = static_cast<std::size_t>(LossMetric::kCount);
  sums[counts + kWeightBins / 2] = 7;  // weights of 1
  sums[counts + kWeightBins - 1] = 1;
  const LossReport report = MakeLossReport(sums);
  EXPECT_EQ(report.tokens, 8);
  EXPECT_EQ(report.loss(), 0.625);
  EXPECT_EQ(report.dropped_share(), 0.2);
  EXPECT_EQ(report.clip_high, 0.25);
  EXPECT_EQ(report.importance.mean, 1);
  EXPECT_EQ(report.importance.ess, 0.5);
  EXPECT_EQ(report.importance.p50, 1);
  EXPECT_GT(report.importance.p99, 1e6);
  EXPECT_EQ(report.correction, (CorrectionReport{0.75, 0.75, 0, 0.25}));
}

TEST(LossReportTest, AStepWithoutTokensIsAllZero) {
  const LossReport report = MakeLossReport(std::vector<double>(kLossSums, 0.0));
  EXPECT_EQ(report.importance, ImportanceReport{});
  EXPECT_EQ(report.dropped_share(), 0);
}

}  // namespace
}  // namespace buttress
