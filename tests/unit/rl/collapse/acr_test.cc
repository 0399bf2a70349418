#include "lib/rl/collapse/acr.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/rl/collapse/outcomes.h"

namespace buttress {
namespace {

CollapseClass Classify(const std::vector<double>& rewards,
                       const std::vector<Outcome>& outcomes = {}) {
  return ClassifyGroup(rewards, outcomes);
}

TEST(ClassifyGroupTest, UsesOutcomesWhereTheyAreKnown) {
  EXPECT_EQ(Classify({0.7, 0.7}, {kC, kC}), CollapseClass::kAllCorrect);
  EXPECT_EQ(Classify({0.1, 0.1}, {kW, kW}), CollapseClass::kAllWrong);
  EXPECT_EQ(Classify({0.5, 0.5}, {kC, kW}), CollapseClass::kOtherConstant);
  EXPECT_EQ(Classify({1, 0}, {kC, kW}), CollapseClass::kMixed);
}

TEST(ClassifyGroupTest, UsesRewardsOfOneAndZeroOtherwise) {
  EXPECT_EQ(Classify({1, 1, 1}), CollapseClass::kAllCorrect);
  EXPECT_EQ(Classify({0, 0}), CollapseClass::kAllWrong);
  EXPECT_EQ(Classify({0.5, 0.5}), CollapseClass::kOtherConstant);
  EXPECT_EQ(Classify({0.5, 0.25}), CollapseClass::kMixed);
}

TEST(ClassifyGroupTest, LeavesOutUnscorableCompletions) {
  EXPECT_EQ(Classify({1, 0, 1}, {kC, kU, kC}), CollapseClass::kAllCorrect);
  EXPECT_EQ(Classify({1, kNan, 1}), CollapseClass::kAllCorrect);
  EXPECT_EQ(Classify({1, 0, 0}, {kC, kU, kU}), CollapseClass::kUnscorable);
  EXPECT_EQ(Classify({1}), CollapseClass::kUnscorable);
  EXPECT_EQ(Classify({}), CollapseClass::kUnscorable);
}

TEST(ClassifyGroupTest, EqualRewardsAreConstantWhateverTheyAre) {
  EXPECT_EQ(Classify(std::vector<double>(8, 0.7)), CollapseClass::kOtherConstant);
  EXPECT_EQ(Classify(std::vector<double>(16, 0.9)), CollapseClass::kOtherConstant);
  // One success in 101 has a sample variance of 0.0099: below a threshold of 0.01, yet the group is
  // not constant.
  std::vector<double> one_success(101, 0.0);
  one_success[50] = 1.0;
  EXPECT_EQ(Classify(one_success), CollapseClass::kMixed);
}

TEST(CollapseCountsTest, AcrExcludesUnscorableGroups) {
  CollapseCounts counts;
  EXPECT_EQ(counts.acr(), 0.0);
  for (const CollapseClass c :
       {CollapseClass::kAllCorrect, CollapseClass::kAllWrong, CollapseClass::kOtherConstant,
        CollapseClass::kMixed, CollapseClass::kUnscorable}) {
    counts.Add(c);
  }
  EXPECT_EQ(counts.groups, 5);
  EXPECT_EQ(counts.constant(), 3);
  EXPECT_EQ(counts.acr(), 0.75);  // 3 / (3 + 1)
}

TEST(CollapseCountsTest, ShardsAddUpToTheWhole) {
  CollapseCounts whole;
  CollapseCounts shards[3];
  for (int i = 0; i < 100; ++i) {
    const auto collapse = static_cast<CollapseClass>(i * 7 % 5);
    whole.Add(collapse);
    shards[i % 3].Add(collapse);
  }
  CollapseCounts sum;
  for (const CollapseCounts& shard : shards) sum.Add(shard);
  EXPECT_EQ(sum, whole);
}

TEST(CollapseClassNameTest, NamesAreTheLabelsOfMetrics) {
  EXPECT_EQ(CollapseClassName(CollapseClass::kMixed), "mixed");
  EXPECT_EQ(CollapseClassName(CollapseClass::kAllCorrect), "all_correct");
  EXPECT_EQ(CollapseClassName(CollapseClass::kAllWrong), "all_wrong");
  EXPECT_EQ(CollapseClassName(CollapseClass::kOtherConstant), "other_constant");
  EXPECT_EQ(CollapseClassName(CollapseClass::kUnscorable), "unscorable");
}

}  // namespace
}  // namespace buttress
