// The choice of the GPU that a process computes on. GPUs are counted from 0 among those that
// CUDA_VISIBLE_DEVICES shows to the process.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/report/status.h"

namespace buttress {

// `gpu` of a process that leaves the choice to its launcher.
inline constexpr std::int64_t kAnyGpu = -1;

// The place of this process among those of its machine, as mpirun (Open MPI, MPICH), srun or
// torchrun counts them; nullopt if none of them started it.
std::optional<int> LocalRankOfLauncher();

// Returns the GPU of a process, of `visible`: `wanted`, or with kAnyGpu that of its `local_rank`;
// the first if it has none or sees one GPU only. kInvalidArgument if there is no such GPU.
Result<int> ChooseGpu(std::int64_t wanted, std::optional<int> local_rank, int visible);

}  // namespace buttress
