#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/report/metrics.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

struct SteppedClock : Clock {
  std::int64_t MonotonicMs() const override { return now_ms; }

  std::int64_t UnixMs() const override { return now_ms; }

  std::int64_t now_ms = 1000;
};

TEST(HealthTest, AProgramIsAliveWhileItsLoopTurnsAndReadyWhileItServes) {
  SteppedClock clock;
  Health health(clock);
  clock.now_ms += 60000;
  EXPECT_EQ(health.WhyNotAlive(), "");  // it has no loop
  EXPECT_EQ(health.WhyNotReady(), "");
  health.SetReady(false);
  EXPECT_EQ(health.WhyNotReady(), "calls are not served");
  health.SetReady(true);
  health.Beat();
  clock.now_ms += Health::kLongestTurnMs;
  EXPECT_EQ(health.WhyNotReady(), "");
  clock.now_ms += 2000;
  EXPECT_THAT(health.WhyNotAlive(), HasSubstr("has not turned for 12 s"));
  EXPECT_EQ(health.WhyNotReady(), health.WhyNotAlive());
  health.Beat();
  EXPECT_EQ(health.WhyNotReady(), "");
}

}  // namespace
}  // namespace buttress
