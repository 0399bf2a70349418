// The device that a rank computes on, and the collective for the tensors there. Torch.
#pragma once

#include <chrono>
#include <memory>

#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/collectives/launcher.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

struct RankDeviceOptions {
  ComputeDevice kind = ComputeDevice::kCpu;
  bool use_nccl = false;                 // joins the ranks with NCCL
  bool share_gpu = false;                // ranks may share a GPU
  const char* instead = "--device cpu";  // the setting that trains without CUDA
  std::chrono::milliseconds timeout{60000};
};

struct RankDevice {
  ModelDevice device;
  LocalPlace place;
  std::unique_ptr<Collective> nccl;  // null: the ranks share tensors through `control`
};

// Opens the CUDA library and chooses the GPU of this rank if the kind is kCuda. Every rank of
// `control` calls it; `control` must outlive the result. kFailedPrecondition if CUDA cannot be
// opened; kInvalidArgument if ranks would have to share a GPU and may not.
Result<RankDevice> OpenRankDevice(const RankDeviceOptions& options, Collective& control);

}  // namespace buttress
