// The interface of libbuttress_cuda.so. The library exports one C symbol, which returns a CudaApi.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/collectives/cuda/shared_buffer.h"
#include "lib/collectives/cuda/stochastic_adamw.h"
#include "lib/collectives/cuda/weight_sender.h"

namespace buttress {

// Implemented in the library and called from the programs through its virtual functions.
class CudaApi {
 public:
  virtual ~CudaApi() = default;

  // As MakeNcclCollective. Buffers must be on GPU `device`. Operations start after the work that
  // the current CUDA stream of the caller holds at the time of the call; Wait returns when the
  // result is visible to every stream.
  virtual Result<std::unique_ptr<Collective>> MakeNccl(Collective& bootstrap, int device,
                                                       std::chrono::milliseconds timeout) = 0;

  // Makes a group of `ranks` with this process as rank 0, on GPU `device`, before the others join.
  // `timeout` bounds Join and each Send.
  virtual Result<std::unique_ptr<WeightSender>> MakeWeightSender(
      int ranks, int device, std::chrono::milliseconds timeout) = 0;

  // Allocates `bytes` of GPU `device` for other processes to map. kUnavailable if it has no room.
  virtual Result<std::unique_ptr<SharedBuffer>> MakeSharedBuffer(std::int64_t bytes,
                                                                 int device) = 0;

  // Makes the update of a range in the memory of GPU `device`, in the current stream of the caller.
  virtual Status StochasticAdamW(const AdamWRange& range, int device) = 0;
};

// MakeSharedBuffer, within the library.
Result<std::unique_ptr<SharedBuffer>> MakeIpcBuffer(std::int64_t bytes, int device);

using CudaApiFactory = CudaApi* (*)();

inline constexpr char kCudaApiSymbol[] = "buttress_cuda_api";

}  // namespace buttress
