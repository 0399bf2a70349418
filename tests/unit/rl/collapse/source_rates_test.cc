#include <gtest/gtest.h>

#include "lib/rl/collapse/sources.h"

namespace buttress {
namespace {

TEST(SourceRatesTest, TheWindowHoldsTheSixteenStepsBefore) {
  SourceWindow window;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    window.Add(step, "b", CollapseClass::kMixed);
    window.Add(step, "b", CollapseClass::kAllWrong);
    if (step % 2 == 0) window.Add(step, "a", CollapseClass::kAllCorrect);
  }
  const std::vector<SourceCollapse> last = window.At(20);
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[0], (SourceCollapse{"a",
                                     {.groups = 1, .all_correct = 1},
                                     {.groups = 8, .all_correct = 8}}));  // steps 4, 6, ... 18
  EXPECT_EQ(last[1].recent, (CollapseCounts{.groups = 32, .all_wrong = 16, .mixed = 16}));
  EXPECT_EQ(window.At(19).size(), 1U);
  EXPECT_TRUE(window.At(21).empty());
}

TEST(SourceRatesTest, AGroupThatFillsAPlaceLaterCountsInItsStep) {
  SourceWindow window;
  window.Add(5, "a", CollapseClass::kMixed);
  window.Add(6, "a", CollapseClass::kMixed);
  window.Add(5, "a", CollapseClass::kAllWrong);
  EXPECT_EQ(window.At(6)[0].recent.groups, 2);
  window.Add(30, "a", CollapseClass::kMixed);
  window.Add(6, "a", CollapseClass::kMixed);  // no longer kept
  EXPECT_EQ(window.At(30)[0].recent.groups, 0);
}

TEST(SourceRatesTest, ASourceHasARateOfItsOwnFromEightComparableGroups) {
  SourceCollapse source{"math", {.groups = 9, .all_wrong = 3, .mixed = 4, .unscorable = 2}, {}};
  EXPECT_FALSE(StepRate(source).has_value());
  source.step.Add(CollapseClass::kAllWrong);
  EXPECT_EQ(StepRate(source), 0.5);
  EXPECT_FALSE(RecentRate(source).has_value());
  source.recent = {.groups = 8, .all_correct = 2, .mixed = 6};
  EXPECT_EQ(RecentRate(source), 0.25);
  source.source = "default";  // of prompts that name none
  EXPECT_FALSE(StepRate(source).has_value());
  EXPECT_FALSE(RecentRate(source).has_value());
}

}  // namespace
}  // namespace buttress
