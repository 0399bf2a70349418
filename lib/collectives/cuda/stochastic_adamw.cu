// The update of a value reads 10 bytes and writes 6, so the memory of the GPU is the limit.
#include <algorithm>

#include "lib/collectives/cuda/stochastic_adamw.h"

namespace buttress {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;  // each takes more values behind them

__global__ void Update(AdamWRange range) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = blockIdx.x * kThreads + threadIdx.x; i < range.count; i += stride)
    UpdateStochastically(range, i);
}

}  // namespace

const char* LaunchStochasticAdamW(const AdamWRange& range, void* stream) {
  if (range.count == 0) return nullptr;
  const std::int64_t blocks = std::min(kMostBlocks, (range.count + kThreads - 1) / kThreads);
  Update<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(range);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace buttress
