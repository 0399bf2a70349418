// Values computed by hand from the formulas; entropy control follows TRL's rule.
#include <gtest/gtest.h>

#include <cmath>

#include "lib/rl/assignment.h"
#include "lib/rl/loss/adaptive_entropy.h"
#include "lib/rl/loss/weight_statistics.h"

namespace buttress {
namespace {

TEST(OverlongPenaltyTest, GivesTheTabulatedValues) {
  const auto penalty = [](std::int64_t tokens) {
    return OverlongPenalty(tokens, 20480, 4096, 1.0);
  };
  EXPECT_EQ(penalty(16384), 0);
  EXPECT_NEAR(penalty(16385), -0.000244, 5e-7);
  EXPECT_NEAR(penalty(17000), -0.150391, 5e-7);
  EXPECT_EQ(penalty(18432), -0.5);
  EXPECT_EQ(penalty(20480), -1);
  EXPECT_EQ(penalty(20481), -1);
  EXPECT_EQ(OverlongPenalty(90, 100, 20, 1.0), -0.5);
  EXPECT_EQ(OverlongPenalty(90, 100, 20, 0.2), -0.1);
  EXPECT_EQ(OverlongPenalty(100, 100, 0, 1.0), 0);
}

TEST(EntropyControlTest, RaisesTheCoefficientBelowTheTargetAndActsOnlyThere) {
  AlgorithmConfig algorithm;
  algorithm.entropy_coef = 0.01;
  EXPECT_EQ(EntropyCoef({}, algorithm), 0.01);  // fixed
  EXPECT_EQ(NextEntropyControl({}, algorithm, 0.1), EntropyControl{});
  algorithm.adaptive_entropy.target = 0.2;
  EntropyControl control;
  EXPECT_EQ(EntropyCoef(control, algorithm), 0);  // the entropy is unknown so far
  control = NextEntropyControl(control, algorithm, 0.2);
  EXPECT_NEAR(EntropyCoef(control, algorithm), 0.015, 1e-15);
  control = NextEntropyControl(control, algorithm, 0.3);
  EXPECT_EQ(EntropyCoef(control, algorithm), 0);
  EXPECT_NEAR(*control.coef, 0.01, 1e-15);
  for (int step = 0; step < 5; ++step) control = NextEntropyControl(control, algorithm, 0.3);
  EXPECT_EQ(*control.coef, 0);
  algorithm.adaptive_entropy.max = 0.006;
  for (int step = 0; step < 5; ++step) control = NextEntropyControl(control, algorithm, 0.1);
  EXPECT_EQ(EntropyCoef(control, algorithm), 0.006);
}

TEST(WeightQuantileTest, IsRightToHalfABin) {
  EXPECT_EQ(WeightOfBin(kWeightBins / 2), 1);
  std::vector<double> counts(kWeightBins, 0.0);
  EXPECT_EQ(WeightQuantile(counts, 0.5), 0);
  const auto bin = [](double log_weight) {
    const double place = std::asinh(log_weight / kWeightScale) / WeightBinRange();
    return static_cast<std::size_t>((place + 1) / 2 * static_cast<double>(kWeightBins));
  };
  for (const double log_weight : {-3.0, -0.4, -0.02, 0.0, 0.001, 0.1, 2.0}) {
    std::fill(counts.begin(), counts.end(), 0.0);
    counts[bin(log_weight)] = 5;
    EXPECT_NEAR(std::log(WeightQuantile(counts, 0.5)), log_weight,
                0.045 * std::abs(log_weight) + 1e-4);
  }
  std::fill(counts.begin(), counts.end(), 0.0);
  counts[bin(-1)] = 1;
  counts[bin(0)] = 97;
  counts[bin(1)] = 2;
  EXPECT_LT(WeightQuantile(counts, 0.01), 0.5);
  EXPECT_EQ(WeightQuantile(counts, 0.5), 1);
  EXPECT_GT(WeightQuantile(counts, 0.99), 2);
}

TEST(EffectiveShareTest, IsOneForEqualWeightsAndOneOfNForASingleOne) {
  EXPECT_EQ(EffectiveShare(8, 24, 72), 1);
  EXPECT_EQ(EffectiveShare(8, 3, 9), 0.125);
  EXPECT_EQ(EffectiveShare(0, 0, 0), 0);
}

}  // namespace
}  // namespace buttress
