// SharedBuffer, in libbuttress_cuda.so. The memory is of cudaMalloc: that of LibTorch's allocator
// comes from expandable segments, which have no handle.
#include "lib/collectives/cuda/shared_buffer.h"

#include <cuda_runtime_api.h>

#include <memory>

#include "lib/collectives/cuda/cuda_api.h"

namespace buttress {
namespace {

// Smaller allocations share a block of the driver with others, and a handle is of the whole block.
constexpr std::int64_t kBlock = std::int64_t{2} << 20;

Status FromCuda(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return OkStatus();
  return Unavailable("CUDA, " + what + ": " + cudaGetErrorString(error));
}

class IpcBuffer : public SharedBuffer {
 public:
  explicit IpcBuffer(int device) : device_(device) {}

  ~IpcBuffer() override {
    if (memory_ != nullptr && cudaSetDevice(device_) == cudaSuccess) cudaFree(memory_);
  }

  Status Open(std::int64_t bytes) {
    const std::int64_t blocks = (bytes + kBlock - 1) / kBlock;
    BUTTRESS_RETURN_IF_ERROR(FromCuda(cudaSetDevice(device_), "choice of the GPU"));
    BUTTRESS_RETURN_IF_ERROR(FromCuda(
        cudaMalloc(&memory_, static_cast<std::size_t>(blocks * kBlock)), "buffer of weights"));
    cudaIpcMemHandle_t handle = {};
    BUTTRESS_RETURN_IF_ERROR(
        FromCuda(cudaIpcGetMemHandle(&handle, memory_), "handle of the buffer of weights"));
    handle_.assign(handle.reserved, sizeof handle.reserved);
    return OkStatus();
  }

  const std::string& handle() const override { return handle_; }

  // cudaMemcpy returns once it has read `bytes`, which is before the GPU has them.
  Status Write(std::string_view bytes) override {
    BUTTRESS_RETURN_IF_ERROR(FromCuda(cudaSetDevice(device_), "choice of the GPU"));
    BUTTRESS_RETURN_IF_ERROR(
        FromCuda(cudaMemcpy(memory_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                 "copy of weights"));
    return FromCuda(cudaStreamSynchronize(nullptr), "copy of weights");
  }

 private:
  const int device_;
  void* memory_ = nullptr;
  std::string handle_;
};

}  // namespace

Result<std::unique_ptr<SharedBuffer>> MakeIpcBuffer(std::int64_t bytes, int device) {
  auto buffer = std::make_unique<IpcBuffer>(device);
  BUTTRESS_RETURN_IF_ERROR(buffer->Open(bytes));
  return std::unique_ptr<SharedBuffer>(std::move(buffer));
}

}  // namespace buttress
