#include "cli/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/base/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kPatienceMs = 20000;

// Ticks until the supervisor gives up.
Status TickToTheEnd(Supervisor& supervisor) {
  Status status;
  WaitUntil(kPatienceMs, [&] { return !(status = supervisor.Tick()).ok(); });
  return status;
}

TEST(SupervisorTest, AnExitThatARestartCannotMendIsNotRestarted) {
  for (const int code : {2, 4, 5}) {
    const TempDir dir;
    Supervisor supervisor(dir.path(), 3);
    const std::string script =
        std::string("echo \"learner: the reason\"; exit ") + std::to_string(code);
    ASSERT_TRUE(supervisor.Start("learner", {"sh", "-c", script}).ok());
    const Status status = TickToTheEnd(supervisor);
    EXPECT_EQ(ExitCode(status), code) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("learner: the reason"));
    EXPECT_EQ(supervisor.restarts(), 0);
  }
}

TEST(SupervisorTest, AnotherFailureIsRestartedUpToTheBound) {
  const TempDir dir;
  Supervisor supervisor(dir.path(), 1);
  ASSERT_TRUE(supervisor.Start("learner", {"sh", "-c", "exit 3"}).ok());
  EXPECT_EQ(TickToTheEnd(supervisor).code(), StatusCode::kUnavailable);
  EXPECT_EQ(supervisor.restarts(), 1);
}

}  // namespace
}  // namespace buttress
