// Tests of the closed loop on collapse (run.control).
#include "lib/rl/collapse/draw_control.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

constexpr std::int64_t kCap = 3;

DrawControlConfig Target(double mixed) {
  DrawControlConfig control;
  control.mixed = mixed;
  return control;
}

DrawControl DrawnAt(double factor, double mixed) {
  DrawControl drawn;
  drawn.factor = factor;
  drawn.mixed = mixed;
  return drawn;
}

// The exact sums of binomial probabilities, by Python's integers.
TEST(ExpectedMixedTest, IsThatOfTheBinomialDistribution) {
  EXPECT_NEAR(ExpectedMixed(0.3, 8, 8), 0.5956660060227066, 1e-12);
  EXPECT_NEAR(ExpectedMixed(0.5, 2, 1), 0.6875, 1e-12);
  EXPECT_NEAR(ExpectedMixed(0.02, 32, 320), 0.22, 1e-9);
  EXPECT_EQ(ExpectedMixed(0, 8, 8), 0);
  EXPECT_EQ(ExpectedMixed(1, 8, 0), 1);
  EXPECT_NEAR(ExpectedMixed(0.4, 5000, 0), 0.4, 1e-9);
}

TEST(DrawControlTest, AMissingShareRaisesTheFactorAndASurplusLowersIt) {
  EXPECT_DOUBLE_EQ(NextDrawFactor(Target(0.8), DrawnAt(2, 0.4), kCap), 2 * std::exp(0.5 * 0.4));
  EXPECT_DOUBLE_EQ(NextDrawFactor(Target(0.8), DrawnAt(2, 1), kCap), 2 * std::exp(-0.5 * 0.2));
}

TEST(DrawControlTest, TheFactorStaysWithinItsBounds) {
  EXPECT_EQ(NextDrawFactor(Target(0.1), DrawnAt(1, 1), kCap), 1);
  EXPECT_EQ(NextDrawFactor(Target(1), DrawnAt(4, 0), kCap), 4);
  EXPECT_EQ(ReplaceableGroups(1, 8), 0);
  EXPECT_EQ(ReplaceableGroups(4, 8), 24);
}

// One step of P groups, each drawn group mixed with probability `rate`: its share of mixed groups.
double MixedShareOf(double rate, std::int64_t prompts, double factor, RandomStream& random) {
  std::int64_t left = ReplaceableGroups(factor, prompts), mixed = 0;
  for (std::int64_t planned = 0; planned < prompts;) {
    const bool is_mixed = random.Uniform() < rate;
    if (!is_mixed && left > 0) {
      --left;
      continue;
    }
    ++planned;
    mixed += is_mixed ? 1 : 0;
  }
  return static_cast<double>(mixed) / static_cast<double>(prompts);
}

// The rate falls and rises while the loop runs. The mean error is at most the range of log u over
// gain T, and what was expected is what comes.
TEST(DrawControlTest, TheMeanShareIsTheTargetWhateverThePromptsDo) {
  constexpr double kTarget = 0.7;
  constexpr int kSteps = 2000;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    RandomStream random({seed, 0});
    DrawControl last;
    double sum = 0, surprise = 0, replaced = 0;
    for (int step = 0; step < kSteps; ++step) {
      const double rate = 0.4 + 0.1 * std::sin(step / 150.0);
      const std::int64_t may = ReplaceableGroups(last.factor, 16);
      surprise += MixedShareOf(rate, 16, last.factor, random) - ExpectedMixed(rate, 16, may);
      last.mixed = MixedShareOf(rate, 16, last.factor, random);
      sum += last.mixed;
      replaced += static_cast<double>(may);
      last.factor = NextDrawFactor(Target(kTarget), last, kCap);
    }
    EXPECT_NEAR(sum / kSteps, kTarget, std::log(1 + kCap) / (0.5 * kSteps));
    EXPECT_NEAR(surprise / kSteps, 0, 0.01);
    EXPECT_LT(replaced / kSteps, 16.0 * kCap / 2) << "it draws no more than the target takes";
  }
}

}  // namespace
}  // namespace buttress
