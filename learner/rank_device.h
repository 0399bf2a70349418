// The device that a rank computes on, and the collective for the tensors there. Torch.
#pragma once

#include <chrono>
#include <memory>

#include "lib/base/status.h"
#include "lib/collectives/collective.h"
#include "lib/collectives/launcher.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

struct RankDevice {
  ModelDevice device;
  LocalPlace place;
  std::unique_ptr<Collective> nccl;  // null: the ranks share tensors through `control`
};

// Opens the CUDA library and chooses the GPU of this rank if `kind` is kCuda; joins the ranks with
// NCCL if `use_nccl`. Every rank of `control` calls it; `control` must outlive the result.
// kFailedPrecondition if CUDA cannot be opened, where `instead` names the setting that trains
// without it; kInvalidArgument if ranks would have to share a GPU.
Result<RankDevice> OpenRankDevice(ComputeDevice kind, bool use_nccl, Collective& control,
                                  const char* instead, std::chrono::milliseconds timeout);

}  // namespace buttress
