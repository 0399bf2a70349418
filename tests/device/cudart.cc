// What SharedBuffer and the test's server use of the CUDA runtime, for the device for tests. A
// handle names the memory of a process that maps it itself. A copy to the device is done once its
// stream gets there, like the real one of pageable memory.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

#include "tests/device/runtime.h"

extern "C" {

cudaError_t cudaSetDevice(int device) {
  if (device >= test_device::DeviceCount()) return cudaErrorInvalidDevice;
  test_device::SetCurrentDevice(device);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = test_device::Allocate(test_device::CurrentDevice(), bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  test_device::Free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  test_device::StreamOf(test_device::CurrentDevice(), 0)
      .Enqueue([to, staged = std::string(static_cast<const char*>(from), bytes)] {
        std::memcpy(test_device::HostOf(to), staged.data(), staged.size());
      });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  test_device::StreamOf(test_device::CurrentDevice(), 0).Synchronize();
  return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  std::memcpy(handle->reserved, &memory, sizeof memory);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  std::memcpy(memory, handle.reserved, sizeof *memory);
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t) { return "error of the device for tests"; }

}  // extern "C"
