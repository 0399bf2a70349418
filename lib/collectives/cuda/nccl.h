// NCCL behind the Collective interface; part of libbuttress_cuda.so.
#pragma once

#include <chrono>
#include <memory>

#include "lib/base/status.h"
#include "lib/collectives/collective.h"

namespace buttress {

// Buffers must lie on GPU `device`. Calls are ordered after what the caller's current CUDA stream
// holds at that time; Wait returns when the result is there for every stream.
Result<std::unique_ptr<Collective>> MakeNccl(Collective& bootstrap, int device,
                                             std::chrono::milliseconds timeout);

}  // namespace buttress
