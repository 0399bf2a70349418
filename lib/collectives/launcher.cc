#include "lib/collectives/launcher.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "lib/base/text/digest.h"

namespace buttress {
namespace {

struct LauncherVariable {
  const char* name;
  const char* launcher;
};

// SLURM_NTASKS is set in a batch script as well, which is one process.
constexpr LauncherVariable kVariables[] = {
    {"OMPI_COMM_WORLD_SIZE", "mpirun"},
    {"SLURM_STEP_NUM_TASKS", "srun"},
    {"PMI_SIZE", "the PMI launcher"},
    {"WORLD_SIZE", "torchrun"},
};

std::string ThisMachine() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  return boot_id + "/" + host.data();
}

// Returns the ranks, in order, whose `value` is that of this one. Every rank calls it.
Result<std::vector<int>> RanksWithTheSame(const std::string& value, Collective& collective,
                                          std::chrono::milliseconds timeout) {
  std::string own = Sha256Of(value);  // of the same size on every rank
  const auto ranks = static_cast<std::size_t>(collective.size());
  std::string all(ranks * own.size(), '\0');
  BUTTRESS_RETURN_IF_ERROR(
      collective
          .AllGather({own.data(), static_cast<std::int64_t>(own.size()), DType::kUInt8},
                     {all.data(), static_cast<std::int64_t>(all.size()), DType::kUInt8})
          ->Wait(timeout));
  std::vector<int> same;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (all.compare(rank * own.size(), own.size(), own) == 0)
      same.push_back(static_cast<int>(rank));
  }
  return same;
}

}  // namespace

Launch ReadLaunch() {
  for (const LauncherVariable& variable : kVariables) {
    const char* text = std::getenv(variable.name);
    if (text == nullptr) continue;
    Launch launch{variable.launcher, 0};
    const auto read = std::from_chars(text, text + std::strlen(text), launch.ranks);
    if (read.ec == std::errc() && *read.ptr == '\0' && launch.ranks > 0) return launch;
  }
  return {};
}

Status CheckWorld(const Launch& launch, const Collective& collective) {
  if (launch.launcher.empty() || launch.ranks == collective.size()) return OkStatus();
  return InvalidArgument(fmt::format(
      "{} started {} processes, but this one is in a job of {} {}; start the learner with mpirun "
      "of Open MPI, or with srun --mpi=pmix, and set local.learner.collective to mpi or nccl",
      launch.launcher, launch.ranks, collective.size(), collective.size() == 1 ? "rank" : "ranks"));
}

Result<LocalPlace> FindLocalPlace(Collective& collective, std::chrono::milliseconds timeout) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<int> here,
                            RanksWithTheSame(ThisMachine(), collective, timeout));
  const auto before =
      std::ranges::count_if(here, [&collective](int rank) { return rank < collective.rank(); });
  return LocalPlace{static_cast<int>(before), static_cast<int>(here.size())};
}

Status CheckGpusDiffer(const std::string& uuid, Collective& collective,
                       std::chrono::milliseconds timeout) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<int> here,
                            RanksWithTheSame(uuid, collective, timeout));
  if (here.size() == 1) return OkStatus();
  return InvalidArgument(
      fmt::format("ranks {} are on one GPU ({}); show each rank its own with CUDA_VISIBLE_DEVICES, "
                  "start fewer, "
                  "or set local.learner.share_gpu: true to test with a shared one",
                  fmt::join(here, ", "), uuid));
}

Result<int> ChooseDevice(LocalPlace place, int visible, bool share) {
  if (visible >= place.size) return place.rank;
  if (share) return place.rank % visible;
  if (visible == 1) return 0;
  return InvalidArgument(fmt::format(
      "{} ranks run on this machine, but {} GPUs are visible; start one rank a GPU, show "
      "each rank its own with CUDA_VISIBLE_DEVICES, or set "
      "local.learner.share_gpu: true to test with shared ones",
      place.size, visible));
}

}  // namespace buttress
