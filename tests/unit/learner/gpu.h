// The GPU of the tests that need one.
#pragma once

#include <ATen/DeviceAccelerator.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "lib/collectives/cuda_library.h"

namespace buttress {

// Opens the CUDA library, or reports the test as skipped where there is no GPU. Its tests use
// Gpu().
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (VisibleCudaDevices() == 0) GTEST_SKIP() << "no GPU is visible";
    const auto opened = OpenCudaLibrary("this test", "a machine without a GPU");
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  }

  static at::Device Gpu() { return {at::accelerator::getAccelerator(true).value(), 0}; }
};

}  // namespace buttress
