#include "rollout_worker/scoring/slow_rewards.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

TEST(SlowRewardsTest, TheSlowestVerifierIsNamedOnceTheThreadsAreBusy) {
  SlowRewards slow(2, 100);
  slow.Add("python", 12);
  slow.Add("python", 18);
  slow.Add("format", 4);
  EXPECT_FALSE(slow.Poll(100 + SlowRewards::kWindowSeconds - 1).has_value()) << "too early";
  const auto found = slow.Poll(100 + SlowRewards::kWindowSeconds);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->verifier, "python");
  EXPECT_DOUBLE_EQ(found->share, 0.75);
  EXPECT_DOUBLE_EQ(found->seconds, 15);
  EXPECT_DOUBLE_EQ(found->busy_share, 0.85);
}

TEST(SlowRewardsTest, EveryWindowCountsItsOwnTime) {
  SlowRewards slow(1, 0);
  slow.Add("python", 20);
  EXPECT_TRUE(slow.Poll(20).has_value());
  EXPECT_FALSE(slow.Poll(40).has_value());
  slow.Add("python", 15);
  EXPECT_FALSE(slow.Poll(60).has_value()) << "three quarters busy";
}

}  // namespace
}  // namespace buttress
