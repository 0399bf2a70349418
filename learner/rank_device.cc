#include "learner/rank_device.h"

#include <cstdlib>
#include <string>

#include "lib/collectives/cuda_library.h"

namespace buttress {
namespace {

Result<int> OpenGpuOfRank(const RankDeviceOptions& options, LocalPlace place, Collective& control) {
  const std::string rank = std::to_string(control.rank());
  BUTTRESS_RETURN_IF_ERROR(OpenCudaLibrary("rank " + rank, options.instead).status());
  BUTTRESS_ASSIGN_OR_RETURN(const int gpu,
                            ChooseDevice(place, VisibleCudaDevices(), options.share_gpu));
  if (options.share_gpu) {
    // NCCL refuses two ranks on one GPU of a machine, and takes ranks of other names for ranks of
    // other machines.
    ::setenv("NCCL_HOSTID", ("rank-" + rank).c_str(), 0);
    return gpu;
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string uuid, CudaDeviceUuid(gpu));
  BUTTRESS_RETURN_IF_ERROR(CheckGpusDiffer(uuid, control, options.timeout));
  return gpu;
}

}  // namespace

Result<RankDevice> OpenRankDevice(const RankDeviceOptions& options, Collective& control) {
  RankDevice out;
  BUTTRESS_ASSIGN_OR_RETURN(out.place, FindLocalPlace(control, options.timeout));
  if (options.kind == ComputeDevice::kCuda) {
    out.device.cuda = true;
    BUTTRESS_ASSIGN_OR_RETURN(out.device.index, OpenGpuOfRank(options, out.place, control));
  }
  if (options.use_nccl) {
    BUTTRESS_ASSIGN_OR_RETURN(out.nccl,
                              MakeNcclCollective(control, out.device.index, options.timeout));
  }
  return out;
}

}  // namespace buttress
