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

TEST(TrainedLengthTest, CountsAllTokensWithoutSpansAndTheSpansOtherwise) {
  Completion completion;
  completion.token_ids.assign(10, 1);
  EXPECT_EQ(TrainedLength(completion), 10);
  completion.trained_spans = {{0, 3}, {7, 10}};
  EXPECT_EQ(TrainedLength(completion), 6);  // 3 + 3
}

}  // namespace
}  // namespace buttress
