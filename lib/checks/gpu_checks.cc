#include "lib/checks/gpu_checks.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/collectives/cuda_library.h"
#include "lib/collectives/gpu_choice.h"

namespace buttress {
namespace {

// Compares what the processes on a GPU need with its memory. `setting` lowers it.
void CheckGpuMemory(int gpu, double state, double most, const char* setting, Findings& findings) {
  const Result<std::int64_t> bytes = CudaDeviceBytes(gpu);
  if (!bytes.ok() || most == 0) return;
  const auto has = static_cast<double>(*bytes);
  const std::string text = fmt::format("GPU {}: {:.1f} to {:.1f} GiB are needed, it has {:.1f}",
                                       gpu, state / kGiB, most / kGiB, has / kGiB);
  if (state > has) {
    findings.Error("GPU memory", text + "; " + setting);
  } else if (most > has) {
    findings.Warn("GPU memory", text + ", which full batches and caches may exceed; " + setting);
  } else {
    findings.Ok("GPU memory", text);
  }
}

}  // namespace

void CheckGpus(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
               Findings& findings) {
  const LocalSettings& local = config.local;
  const std::int64_t ranks = local.learner.device == ComputeDevice::kCuda ? processes.ranks : 0;
  const bool sampling =
      local.worker.engine == EngineKind::kEmbedded && local.worker.device == ComputeDevice::kCuda;
  const std::int64_t workers = sampling ? processes.workers : 0;
  if (ranks + workers == 0)
    return findings.Ok("GPUs", "skipped: nothing here computes on a GPU (device: cpu)");
  const Result<int> visible = CountCudaDevices();
  if (!visible.ok()) {
    return findings.Error("GPUs", visible.status().message() +
                                      "; set device: cpu (local.learner, local.worker), or check "
                                      "nvidia-smi");
  }
  const bool shared = local.worker.gpu != kAnyGpu;
  const std::int64_t own =
      local.learner.share_gpu ? std::min<std::int64_t>(ranks, *visible) : ranks;
  const std::int64_t needed = own + (shared ? 0 : workers);
  if (needed > *visible || (shared && workers > 0 && local.worker.gpu >= *visible)) {
    return findings.Error(
        "GPUs", fmt::format("{} learner ranks and {} workers need {} GPUs, but {} are visible; "
                            "lower local.launch.learner_ranks or workers, or name the GPU that "
                            "the workers share with local.worker.gpu",
                            ranks, workers, std::max(needed, local.worker.gpu + 1), *visible));
  }
  findings.Ok("GPUs", fmt::format("{} are visible, {} are needed", *visible, needed));
  const MemoryNeed rank = LearnerMemory(config, model), worker = WorkerMemory(config, model);
  const auto count = static_cast<double>(workers);
  if (ranks > 0)
    CheckGpuMemory(0, rank.state, rank.most(),
                   "lower local.learner.micro_batch_tokens, or set local.learner.recompute or "
                   "run.optim.precision: stochastic",
                   findings);
  if (workers == 0) return;
  const auto each = shared ? count : 1.0;
  CheckGpuMemory(shared ? static_cast<int>(local.worker.gpu) : static_cast<int>(own),
                 each * worker.state, each * worker.most(),
                 "lower local.worker.kv_cache_tokens or local.launch.workers", findings);
}

}  // namespace buttress
