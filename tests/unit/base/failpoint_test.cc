#include "lib/base/os/failpoint.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

namespace buttress {
namespace {

Status Arm(const char* value) {
  ::setenv("BUTTRESS_FAILPOINTS", value, 1);
  const Status status = ArmFailpoints();
  ::unsetenv("BUTTRESS_FAILPOINTS");
  return status;
}

TEST(FailpointTest, ThePointKillsTheProcessWhenItsCountIsReached) {
  EXPECT_EXIT(
      {
        const bool armed = Arm("other:crash:1,here:crash:3").ok();
        Failpoint("here");
        Failpoint("here");
        if (!armed || ArmedFailpoints() != 2) std::exit(1);
        Failpoint("here");
        std::exit(2);
      },
      testing::KilledBySignal(SIGKILL), "failpoint reached");
}

TEST(FailpointTest, APointThatSleepsTakesItsTimeWheneverItIsReached) {
  EXPECT_EXIT(
      {
        const bool is_armed = Arm("here:sleep:20").ok();
        const auto started = std::chrono::steady_clock::now();
        Failpoint("here");
        Failpoint("here");
        const auto slept = std::chrono::steady_clock::now() - started;
        std::exit(is_armed && slept >= std::chrono::milliseconds(40) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "sleeping");
}

TEST(FailpointTest, ThePointFailsOnceWhenItsCountIsReached) {
  ASSERT_TRUE(Arm("fails:fail:2").ok());
  EXPECT_TRUE(PassFailpoint("other"));
  EXPECT_TRUE(PassFailpoint("fails"));
  EXPECT_FALSE(PassFailpoint("fails"));
  EXPECT_EQ(errno, EIO);
  EXPECT_TRUE(PassFailpoint("fails"));
}

TEST(FailpointTest, AMalformedVariableIsRefused) {
  for (const char* bad : {"here", "here:crash", "here:crash:0", "here:crash:x", "here:sleep:0",
                          "here:wait:1", "here:1"}) {
    EXPECT_EQ(Arm(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace buttress
