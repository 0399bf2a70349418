#include "lib/collectives/gpu_choice.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace buttress {
namespace {

// In the order of kVariables in launcher.cc. PMIx has no variable for it; srun --mpi=pmix and
// mpirun set their own.
constexpr const char* kLocalRanks[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
                                       "MPI_LOCALRANKID", "LOCAL_RANK"};

}  // namespace

std::optional<int> LocalRankOfLauncher() {
  for (const char* name : kLocalRanks) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    int rank = 0;
    const auto read = std::from_chars(text, text + std::strlen(text), rank);
    if (read.ec == std::errc() && *read.ptr == '\0' && rank >= 0) return rank;
  }
  return std::nullopt;
}

Result<int> ChooseGpu(std::int64_t wanted, std::optional<int> local_rank, int visible) {
  if (wanted != kAnyGpu) {
    if (wanted >= 0 && wanted < visible) return static_cast<int>(wanted);
    return InvalidArgument(
        fmt::format("GPU {} is named, but {} are visible (0 to {}); name one of them, or check "
                    "CUDA_VISIBLE_DEVICES",
                    wanted, visible, visible - 1));
  }
  if (visible == 1 || !local_rank) return 0;
  if (*local_rank < visible) return *local_rank;
  return InvalidArgument(fmt::format(
      "this is process {} of its machine, counted from 0, but {} GPUs are visible; start one "
      "process a GPU, or name the GPU that it shares",
      *local_rank, visible));
}

}  // namespace buttress
