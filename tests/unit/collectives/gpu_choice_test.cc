#include "lib/collectives/gpu_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/collectives/cuda_library.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

TEST(GpuChoiceTest, ANamedGpuIsTakenIfItIsVisible) {
  EXPECT_EQ(*ChooseGpu(3, 0, 8), 3);
  const auto gpu = ChooseGpu(8, std::nullopt, 8);
  EXPECT_EQ(gpu.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(gpu.status().message(), HasSubstr("GPU 8 is named, but 8 are visible (0 to 7)"));
}

TEST(GpuChoiceTest, TheProcessesOfALauncherTakeOneGpuEach) {
  EXPECT_EQ(*ChooseGpu(kAnyGpu, std::nullopt, 8), 0);
  EXPECT_EQ(*ChooseGpu(kAnyGpu, 5, 8), 5);
  EXPECT_EQ(*ChooseGpu(kAnyGpu, 5, 1), 0);  // the launcher shows each process one
  const auto gpu = ChooseGpu(kAnyGpu, 2, 2);
  EXPECT_EQ(gpu.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(gpu.status().message(), HasSubstr("this is process 2 of its machine"));
}

TEST(GpuChoiceTest, TheLocalRankIsReadFromTheLauncher) {
  const char* const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID",
                               "LOCAL_RANK"};
  for (const char* name : names) ::unsetenv(name);
  EXPECT_EQ(LocalRankOfLauncher(), std::nullopt);
  ::setenv("SLURM_LOCALID", "3x", 1);
  EXPECT_EQ(LocalRankOfLauncher(), std::nullopt);
  for (const char* name : names) {
    ::setenv(name, "3", 1);
    EXPECT_EQ(LocalRankOfLauncher(), 3) << name;
    ::unsetenv(name);
  }
}

// The driver is tests/support/fakes/fake_cuda_driver.cc.
class DriverTest : public ::testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("FAKE_GPUS");
    ::unsetenv("FAKE_GPUS_FAIL");
  }
};

TEST_F(DriverTest, TheDriverCountsTheGpusAndTellsThemApart) {
  ::setenv("FAKE_GPUS", "8", 1);
  EXPECT_EQ(*CountCudaDevices(), 8);
  EXPECT_EQ(*CudaDeviceUuid(0), std::string(32, '0'));
  EXPECT_EQ(*CudaDeviceUuid(7), std::string(31, '0') + "7");
  EXPECT_EQ(CudaDeviceUuid(8).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(DriverTest, AMachineWithoutAGpuIsAnErrorWithItsReason) {
  ::setenv("FAKE_GPUS", "0", 1);
  EXPECT_EQ(VisibleCudaDevices(), 0);
  EXPECT_THAT(CountCudaDevices().status().message(), HasSubstr("shows no GPU"));
  ::setenv("FAKE_GPUS_FAIL", "1", 1);
  EXPECT_EQ(VisibleCudaDevices(), 0);
  EXPECT_THAT(CountCudaDevices().status().message(),
              HasSubstr("no CUDA-capable device is detected (error 100)"));
  const auto opened = OpenCudaLibrary("this test", "the CPU");
  EXPECT_EQ(opened.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(opened.status().message(),
              HasSubstr("no CUDA device is visible to this test: NVIDIA's driver says"));
}

}  // namespace
}  // namespace buttress
