#include "lib/verify/audit/label_noise.h"

#include <gtest/gtest.h>

namespace buttress::label_noise_test {
namespace {

// Newcombe (1998), "Two-sided confidence intervals for the single proportion", Statistics in
// Medicine 17, table I, method 3 (Wilson).
TEST(LabelNoise, IntervalsMatchNewcombesTable) {
  const ErrorRate rates[] = {{81, 263}, {15, 148}, {0, 20}, {1, 29}};
  const double low[] = {0.2553, 0.0624, 0.0000, 0.0061};
  const double high[] = {0.3662, 0.1605, 0.1611, 0.1718};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(rates[i].low(), low[i], 5e-5) << i;
    EXPECT_NEAR(rates[i].high(), high[i], 5e-5) << i;
  }
}

TEST(LabelNoise, WithoutTrialsTheIntervalIsEverything) {
  EXPECT_EQ(ErrorRate{}.low(), 0);
  EXPECT_EQ(ErrorRate{}.high(), 1);
}

TEST(LabelNoise, WithoutNoiseTheExpectedAcrIsTheTrueOne) {
  const std::vector<LabelledGroup> groups = {{8, 0}, {0, 8}, {3, 5}, {1, 7}};
  EXPECT_EQ(ExpectedAcr(groups, 0, 0), 0.5);
  const AcrRange range = ExpectedAcrRange(groups, {0, 1000000}, {0, 1000000});
  EXPECT_NEAR(range.low, 0.5, 1e-4);
  EXPECT_NEAR(range.high, 0.5, 1e-4);
}

// Computed by hand: (1 - 0.1)^2 + 0.1^2 for a group of two correct completions, and the sum of the
// two mixed terms for a group with one of each.
TEST(LabelNoise, FalseVerdictsHideCollapsedGroupsAndMakeOthersLookCollapsed) {
  EXPECT_NEAR(ExpectedAcr({{2, 0}}, 0.2, 0.1), 0.82, 1e-12);
  EXPECT_NEAR(ExpectedAcr({{0, 2}}, 0.2, 0.1), 0.68, 1e-12);
  EXPECT_NEAR(ExpectedAcr({{1, 1}}, 0.2, 0.1), 0.9 * 0.2 + 0.1 * 0.8, 1e-12);
}

}  // namespace
}  // namespace buttress::label_noise_test
