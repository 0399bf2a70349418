#include "cli/train/worker_gpus.h"

#include <fmt/core.h>

#include <numeric>

#include "lib/collectives/gpu_choice.h"

namespace buttress {

bool WorkersNeedGpus(const LocalSettings& local) {
  return local.worker.engine == EngineKind::kEmbedded &&
         local.worker.device == ComputeDevice::kCuda && local.worker.gpu == kAnyGpu;
}

Result<std::vector<int>> AssignWorkerGpus(const LocalSettings& local, int visible) {
  if (!WorkersNeedGpus(local)) return std::vector<int>();
  const std::int64_t workers = local.launch.workers;
  const bool learner_on_gpu = local.learner.device == ComputeDevice::kCuda;
  const std::int64_t ranks = learner_on_gpu ? local.launch.learner_ranks : 0;
  if (ranks + workers > visible) {
    return InvalidArgument(fmt::format(
        "local.launch: {} learner ranks and {} workers on GPUs need {}, but {} are visible; lower "
        "local.launch.learner_ranks or workers, or name the GPU that the workers share with "
        "local.worker.gpu",
        ranks, workers, ranks + workers, visible));
  }
  std::vector<int> gpus(static_cast<std::size_t>(workers));
  std::iota(gpus.begin(), gpus.end(), static_cast<int>(ranks));
  return gpus;
}

}  // namespace buttress
