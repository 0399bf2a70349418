#include <gtest/gtest.h>

#include "lib/explain/rates.h"
#include "lib/rl/collapse/difficulty.h"

namespace buttress {
namespace {

TEST(ExcessTest, IsSignificantExactlyOutsideOfTheInterval) {
  for (const double expected : {0.1, 0.5, 0.82}) {
    const ExpectedRate range = IntervalOf(expected, 1200, 4000);
    for (const double shift : {1e-4, -1e-4}) {
      EXPECT_EQ(ExcessOf(range.high + shift, expected, 1200, 4000).significant(), shift > 0);
      EXPECT_EQ(ExcessOf(range.low - shift, expected, 1200, 4000).significant(), shift > 0);
    }
  }
}

TEST(ExcessTest, TheProbabilityIsThatOfTheNormalDistribution) {
  // 0.06 less the bias of 0.02 is 0.04; the deviation is sqrt(0.25 / 400) = 0.025: 1.6 of it.
  const Excess excess = ExcessOf(0.56, 0.5, 400, 1'000'000'000);
  EXPECT_NEAR(excess.probability, 0.1096, 1e-4);
  EXPECT_NEAR(excess.difference, 0.06, 1e-12);
}

TEST(ExcessTest, WithoutGroupsNothingIsSignificant) {
  EXPECT_EQ(ExcessOf(1, 0, 0, 100).probability, 1);
  EXPECT_EQ(ExcessOf(0.51, 0.5, 1'000'000, 1'000'000).probability, 1) << "within the bias";
}

TEST(ExcessTest, IsDescribedWithItsDirection) {
  EXPECT_EQ(DescribeExcess({0, 1}), "as difficulty predicts");
  EXPECT_EQ(DescribeExcess({0.1, 0.35}), "within chance (35 % of runs differ as much)");
  EXPECT_EQ(DescribeExcess({0.1, 2e-5}),
            "above what difficulty explains (0.002 % of runs differ as much by chance)");
  EXPECT_EQ(DescribeExcess({-0.1, 0}),
            "below what difficulty explains (hardly one run in 1e9 differs as much by chance)");
}

}  // namespace
}  // namespace buttress
