#include "lib/base/os/shutdown.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

TEST(ShutdownTest, AnInterruptedCommandEndsAsShellsExpect) {
  EXPECT_EQ(CommandExitCode(Cancelled("x")), 130);
  EXPECT_EQ(ExitCode(Cancelled("x")), 3);
  EXPECT_EQ(CommandExitCode(DataLoss("x")), 4);
}

}  // namespace
}  // namespace buttress
