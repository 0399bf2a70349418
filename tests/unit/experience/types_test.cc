#include "lib/experience/types.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

TEST(PolicyVersionTest, IsOrderedByEpochAndThenStep) {
  EXPECT_TRUE(OlderThan({1, 9, ""}, {2, 0, ""}));
  EXPECT_TRUE(OlderThan({1, 8, ""}, {1, 9, ""}));
  EXPECT_FALSE(OlderThan({2, 0, ""}, {1, 9, ""}));
  EXPECT_FALSE(OlderThan({1, 9, "a"}, {1, 9, "b"}));
  EXPECT_EQ(ToString({2, 14, ""}), "2:14");
}

TEST(PromptHistoryTest, RecentGroupsWeighMore) {
  PromptHistory history;
  history.Add({8, 8}, 0.5);
  EXPECT_EQ(history, (PromptHistory{8, 8}));
  history.Add({0, 0}, 0.5);  // nothing was scored
  EXPECT_EQ(history, (PromptHistory{8, 8}));
  history.Add({1, 4}, 0.5);
  history.Add({0, 8}, 0.5);
  EXPECT_EQ(history.correct, 9);
  EXPECT_EQ(history.scored, 20);
  EXPECT_EQ(history.recent_correct, 2.5);  // 8 / 4 + 1 / 2 + 0
  EXPECT_EQ(history.recent_scored, 12);    // 8 / 4 + 4 / 2 + 8
  PromptHistory alike(3, 8);
  alike.Add({1, 8}, 1);
  EXPECT_EQ(alike, (PromptHistory{4, 16}));
}

}  // namespace
}  // namespace buttress
