// Opens libbuttress_cuda.so at run time. It alone links CUDA, so that the programs start on
// machines without CUDA. GPUs are counted from 0 among those that CUDA_VISIBLE_DEVICES shows to the
// process. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/report/status.h"
#include "lib/collectives/cuda/cuda_api.h"

namespace buttress {

// Returns the number of GPUs that the driver shows to this process, at least 1. Needs neither
// libbuttress_cuda.so nor the CUDA runtime. kFailedPrecondition says what is missing: the driver,
// or a GPU.
Result<int> CountCudaDevices();

// The same number; 0 where it is an error.
int VisibleCudaDevices();

// Returns the UUID of a GPU, or of a part of one (MIG), in 32 hexadecimal digits. No two GPUs of
// the world have the same.
Result<std::string> CudaDeviceUuid(int gpu);

// Returns the memory of a GPU in bytes. kFailedPrecondition as CountCudaDevices.
Result<std::int64_t> CudaDeviceBytes(int gpu);

// Opens libbuttress_cuda.so from the folder of the program, which registers the CUDA back end of
// LibTorch. The library is opened once and stays open. Memory comes from expandable segments,
// unless PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF is set. kFailedPrecondition if no GPU is
// visible ("no CUDA device is visible to <who>: <why>; use <instead>, or check nvidia-smi") or a
// library of CUDA is missing.
Result<CudaApi*> OpenCudaLibrary(const std::string& who, const std::string& instead);

// Opens the library for a process that computes on one GPU, and returns which (ChooseGpu of
// gpu_choice.h, by the launcher of this process).
Result<int> OpenGpu(std::int64_t wanted, const std::string& who, const std::string& instead);

}  // namespace buttress
