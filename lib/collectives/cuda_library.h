// Opens libbuttress_cuda.so, the one library that is linked to CUDA, at run time. The programs
// themselves are linked to nothing of CUDA.
#pragma once

#include <string>

#include "lib/base/status.h"
#include "lib/collectives/cuda/cuda_api.h"

namespace buttress {

// GPUs that the driver shows to this process; 0 without a driver. Needs neither libbuttress_cuda.so
// nor a CUDA runtime.
int VisibleCudaDevices();

// What libbuttress_cuda.so offers; it is looked for beside the running program, opened once (which
// registers LibTorch's CUDA back end), and stays open. kFailedPrecondition where no GPU is visible
// ("no CUDA device is visible to <who>; use <instead>, or check nvidia-smi"), or where a CUDA
// library that it needs is missing. Thread-safe.
Result<CudaApi*> OpenCudaLibrary(const std::string& who, const std::string& instead);

}  // namespace buttress
