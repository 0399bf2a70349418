#include "learner/rank_device.h"

#include <string>

#include "lib/collectives/cuda_library.h"

namespace buttress {

Result<RankDevice> OpenRankDevice(ComputeDevice kind, bool use_nccl, Collective& control,
                                  const char* instead, std::chrono::milliseconds timeout) {
  RankDevice out;
  BUTTRESS_ASSIGN_OR_RETURN(out.place, FindLocalPlace(control, timeout));
  if (kind == ComputeDevice::kCuda) {
    BUTTRESS_RETURN_IF_ERROR(
        OpenCudaLibrary("rank " + std::to_string(control.rank()), instead).status());
    out.device.cuda = true;
    BUTTRESS_ASSIGN_OR_RETURN(out.device.index, ChooseDevice(out.place, VisibleCudaDevices()));
  }
  if (use_nccl) {
    BUTTRESS_ASSIGN_OR_RETURN(out.nccl, MakeNcclCollective(control, out.device.index, timeout));
  }
  return out;
}

}  // namespace buttress
