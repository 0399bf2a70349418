#include "lib/rl/collapse/collapse_metrics.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/rl/collapse/outcomes.h"

namespace buttress {
namespace {

bool Near(const std::vector<double>& rewards, const std::vector<Outcome>& outcomes = {}) {
  return IsNearCollapse(rewards, outcomes);
}

TEST(NearCollapseTest, IsOneCompletionAwayFromConstant) {
  EXPECT_TRUE(Near({1, 0, 0, 0}));
  EXPECT_TRUE(Near({0, 1, 0, 0}));
  EXPECT_TRUE(Near({0, 0, 0, 1}));
  EXPECT_TRUE(Near({1, 1, 0}));
  EXPECT_TRUE(Near({0.7, 0.7, 0.2, 0.7}));
  EXPECT_FALSE(Near({1, 1, 0, 0}));
  EXPECT_FALSE(Near({1, 0.5, 0}));
  EXPECT_FALSE(Near({0.5, 1, 0, 0}));
}

TEST(NearCollapseTest, ConstantGroupsAndPairsAreNot) {
  EXPECT_FALSE(Near({1, 1, 1, 1}));
  EXPECT_FALSE(Near({1, 0}));  // either of two is "all but one"
  EXPECT_FALSE(Near({1}));
  EXPECT_FALSE(Near({}));
}

TEST(NearCollapseTest, LeavesOutUnscorableCompletions) {
  EXPECT_TRUE(Near({1, 0.3, 1, 0}, {kC, kU, kC, kW}));
  EXPECT_FALSE(Near({1, 0, 1, 1}, {kC, kU, kC, kC}));
  EXPECT_FALSE(Near({1, kNan, 0}));
}

TEST(VarianceThresholdAcrTest, MistakesOneSuccessInAHundredAndOneForCollapse) {
  std::vector<double> rewards(101, 0.0);
  rewards[50] = 1.0;  // sample variance 1 / 101 = 0.0099
  rewards.resize(200, 0.0);
  rewards[150] = 1.0;  // 1 / 99
  const std::vector<std::int32_t> offsets = {0, 101, 200};
  EXPECT_EQ(VarianceThresholdAcr(rewards, {}, offsets, 0.01), 0.5);
  EXPECT_EQ(MakeCollapseSnapshot(rewards, {}, offsets, std::vector<PromptHistory>(2)).step.acr(),
            0.0);
}

TEST(VarianceThresholdAcrTest, LeavesOutGroupsWithoutAVariance) {
  const std::vector<double> rewards = {1, 1, 1, 0, 1, kNan};
  const std::vector<std::int32_t> offsets = {0, 2, 4, 6};
  EXPECT_EQ(VarianceThresholdAcr(rewards, {}, offsets, 0.01), 0.5);
  EXPECT_EQ(VarianceThresholdAcr({}, {}, std::vector<std::int32_t>{0}, 0.01), 0.0);
}

TEST(CollapseSnapshotTest, CountsTheBatchAndExpectsFromTheHistories) {
  const std::vector<double> rewards = {1, 1, 0, 1, 0, 0, 1, 0};
  const std::vector<Outcome> outcomes = {kC, kC, kW, kC, kW, kW, kC, kU};
  const std::vector<std::int32_t> offsets = {0, 2, 4, 6, 8};
  const std::vector<PromptHistory> history = {{0, 0}, {1, 1}, {0, 0}, {5, 9}};
  const CollapseSnapshot snapshot = MakeCollapseSnapshot(rewards, outcomes, offsets, history);
  EXPECT_EQ(snapshot.step.groups, 4);
  EXPECT_EQ(snapshot.step.unscorable, 1);
  EXPECT_EQ(snapshot.cumulative, snapshot.step);
  EXPECT_DOUBLE_EQ(snapshot.acr_ema, 2.0 / 3.0);
  // The unscorable group is in neither rate.
  const std::vector<GroupTrials> groups = {{{0, 0}, {2, 2}}, {{1, 1}, {1, 2}}, {{0, 0}, {0, 2}}};
  const Difficulty difficulty = Difficulty::Fit(groups);
  double expected = 0;
  for (const GroupTrials& group : groups) expected += difficulty.Constant(group.before, 2) / 3;
  EXPECT_NEAR(snapshot.expected_acr, expected, 1e-12);
  EXPECT_NEAR(ExcessAcr(snapshot), 2.0 / 3.0 - expected, 1e-12);
}

TEST(CollapseSnapshotTest, TheIntervalOfAFewGroupsIsWide) {
  CollapseSnapshot snapshot;
  snapshot.expected_acr = 0.5;
  EXPECT_EQ(ExpectedAcr(snapshot).high, 1);  // no groups
  snapshot.step.mixed = snapshot.cumulative.mixed = 32;
  const ExpectedRate few = ExpectedAcr(snapshot);
  snapshot.step.mixed = 512;
  snapshot.cumulative.mixed = 100000;
  const ExpectedRate many = ExpectedAcr(snapshot);
  EXPECT_NEAR(many.high, 0.5 + 1.96 * std::sqrt(0.25 * (1.0 / 512 + 1.0 / 1024)) + 0.02, 1e-4);
  EXPECT_GT(few.high, many.high);
  EXPECT_NEAR(many.low + many.high, 1, 1e-12);
}

TEST(AcrOverStepsTest, Acr100IsTheMeanOfTheFirstHundredSteps) {
  std::vector<double> acr(100, 0.25);
  acr.resize(300, 1.0);
  EXPECT_EQ(Acr100(acr), 0.25);
  EXPECT_EQ(Acr100(std::vector<double>{0.5, 0.25}), 0.375);
  EXPECT_EQ(Acr100({}), 0.0);
}

TEST(AcrOverStepsTest, SigmaIsOverTheLastTwentyFiveSteps) {
  std::vector<double> acr(50, 1.0);
  for (int i = 0; i < 25; ++i) acr.push_back(i < 5 ? 0.5 : 0.0);
  // mean 0.1, squares 5 * 0.16 + 20 * 0.01 = 1, over 24
  EXPECT_NEAR(SigmaAcr(acr), 0.20412414523193154, 1e-15);
  EXPECT_EQ(SigmaAcr(std::vector<double>(30, 0.7)), 0.0);
  EXPECT_EQ(SigmaAcr(std::vector<double>{0.3}), 0.0);
}

}  // namespace
}  // namespace buttress
