#include "lib/base/report/status.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument(std::to_string(x) + " is odd");
  return x / 2;
}

Result<int> Quarter(int x) {
  BUTTRESS_ASSIGN_OR_RETURN(const int half, Half(x));
  BUTTRESS_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(StatusTest, AssignOrReturnPassesValuesAndFailures) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().ToString(), "INVALID_ARGUMENT: 3 is odd");
}

TEST(StatusTest, AnnotateKeepsTheCodeAndLeavesOkAlone) {
  EXPECT_EQ(DataLoss("torn").Annotate("a.bin").ToString(), "DATA_LOSS: a.bin: torn");
  EXPECT_TRUE(OkStatus().Annotate("a.bin").ok());
}

TEST(StatusTest, ExitCodesTellWhetherARestartHelps) {
  EXPECT_EQ(ExitCode(OkStatus()), 0);
  EXPECT_EQ(ExitCode(InvalidArgument("x")), 2);
  EXPECT_EQ(ExitCode(Unavailable("x")), 3);
  EXPECT_EQ(ExitCode(DataLoss("x")), 4);
  EXPECT_EQ(ExitCode(ResourceExhausted("the disk is full")), 3);
  EXPECT_EQ(ExitCode(NothingToLearn("no verdict").Annotate("step 3")), 5);
  EXPECT_EQ(ExitCode(FailedPrecondition("another run holds the folder")), 3);
  EXPECT_EQ(ExitCode(OutOfMemory("8 GiB").Annotate("step 3")), 6);
}

TEST(StatusDeathTest, ReadingTheValueOfAFailureAborts) {
  EXPECT_DEATH({ [[maybe_unused]] const int x = *Half(1); }, "1 is odd");
}

}  // namespace
}  // namespace buttress
