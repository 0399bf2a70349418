// The door of libbuttress_cuda.so: one C symbol, behind it C++ objects.
#pragma once

#include <chrono>
#include <memory>

#include "lib/base/status.h"
#include "lib/collectives/collective.h"

namespace buttress {

class CudaApi {
 public:
  virtual ~CudaApi() = default;

  // NCCL over the ranks of `bootstrap`, on GPU `device` of this process. Every rank calls it.
  virtual Result<std::unique_ptr<Collective>> MakeNccl(Collective& bootstrap, int device,
                                                       std::chrono::milliseconds timeout) = 0;
};

using CudaApiFactory = CudaApi* (*)();

inline constexpr char kCudaApiSymbol[] = "buttress_cuda_api";

}  // namespace buttress
