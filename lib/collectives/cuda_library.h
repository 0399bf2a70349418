// Opens libbuttress_cuda.so at run time. It alone links CUDA, so that the programs start on
// machines without CUDA.
#pragma once

#include <string>

#include "lib/base/status.h"
#include "lib/collectives/cuda/cuda_api.h"

namespace buttress {

// Returns the number of GPUs that the driver shows to this process; 0 without a driver. Needs
// neither libbuttress_cuda.so nor the CUDA runtime.
int VisibleCudaDevices();

// Opens libbuttress_cuda.so from the folder of the program, which registers the CUDA back end of
// LibTorch. The library is opened once and stays open. kFailedPrecondition if no GPU is visible
// ("no CUDA device is visible to <who>; use <instead>, or check nvidia-smi") or a library of CUDA
// is missing. Thread-safe.
Result<CudaApi*> OpenCudaLibrary(const std::string& who, const std::string& instead);

}  // namespace buttress
