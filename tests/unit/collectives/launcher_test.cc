#include "lib/collectives/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace buttress {
namespace {

using ::testing::HasSubstr;

// Removes the variables of every launcher for the time of a test.
class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override { Clear(); }

  void TearDown() override { Clear(); }

 private:
  static void Clear() {
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE", "WORLD_SIZE"})
      ::unsetenv(name);
  }
};

TEST_F(LauncherTest, AProcessWithoutALauncherIsOneRank) {
  EXPECT_EQ(ReadLaunch().launcher, "");
  EXPECT_EQ(ReadLaunch().ranks, 1);
  EXPECT_TRUE(CheckWorld(ReadLaunch(), *MakeLocalCollective()).ok());
}

TEST_F(LauncherTest, MpirunInsideAnotherLauncherIsTheLauncher) {
  ::setenv("WORLD_SIZE", "8", 1);
  EXPECT_EQ(ReadLaunch().launcher, "torchrun");
  EXPECT_EQ(ReadLaunch().ranks, 8);
  ::setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_EQ(ReadLaunch().launcher, "srun");
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(ReadLaunch().launcher, "mpirun");
  EXPECT_EQ(ReadLaunch().ranks, 2);
}

TEST_F(LauncherTest, AVariableThatIsNoNumberIsIgnored) {
  ::setenv("SLURM_STEP_NUM_TASKS", "4x", 1);
  EXPECT_EQ(ReadLaunch().launcher, "");
}

// srun without PMIx starts processes that do not know of each other.
TEST_F(LauncherTest, ProcessesThatDoNotFormOneJobAreRefused) {
  ::setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  const Status status = CheckWorld(ReadLaunch(), *MakeLocalCollective());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("srun started 4 processes, but this one is in a job of 1 "
                                          "rank; start the learner with mpirun"));
}

TEST(ChooseDeviceTest, EachRankHasAGpuOfItsOwn) {
  EXPECT_EQ(*ChooseDevice({0, 1}, 8, false), 0);
  EXPECT_EQ(*ChooseDevice({7, 8}, 8, false), 7);
  EXPECT_EQ(*ChooseDevice({3, 4}, 1, false), 0);  // the launcher shows each rank one
}

TEST(ChooseDeviceTest, RanksDoNotShareAGpuUnlessToldTo) {
  EXPECT_EQ(*ChooseDevice({2, 4}, 3, true), 2);
  EXPECT_EQ(*ChooseDevice({3, 4}, 3, true), 0);
  const Result<int> device = ChooseDevice({2, 4}, 3, false);
  EXPECT_EQ(device.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(device.status().message(),
              HasSubstr("4 ranks run on this machine, but 3 GPUs are visible"));
}

}  // namespace
}  // namespace buttress
