#include "lib/explain/tally.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

TEST(TallyTest, RecentIsOfTheLastWholeStepsWithEnoughGroups) {
  Tally tally;
  for (int step = 1; step <= 10; ++step) {
    for (int group = 0; group < 100; ++group) {
      const bool dead = step <= 6 && group < 50;
      tally.Add(step, dead ? std::optional(Cause::kVerifierConstant) : std::nullopt);
    }
  }
  EXPECT_EQ(tally.groups, 1000);
  EXPECT_EQ(tally.of(Cause::kVerifierConstant), 300);
  EXPECT_EQ(tally.Recent().groups, 300) << "three steps of 100, since two hold fewer than 256";
  EXPECT_EQ(tally.Recent().collapsed, 0);
  tally.Add(11, Cause::kTooHard);
  EXPECT_EQ(tally.Recent().groups, 301);
  EXPECT_EQ(tally.Recent().of(Cause::kTooHard), 1);
}

TEST(TallyTest, SharesHaveTheirIntervals) {
  EXPECT_EQ(ShareText(10, 40), "25 % (14 to 40)");
  EXPECT_EQ(ShareText(0, 256), "0 % (0 to 1)");
  EXPECT_EQ(ShareText(0, 0), "0 % (0 to 100)");
}

}  // namespace
}  // namespace buttress
