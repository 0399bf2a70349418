#include "lib/checks/memory_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/base/os/memory.h"
#include "lib/checks/learner_memory.h"
#include "lib/collectives/cuda_library.h"
#include "lib/collectives/gpu_choice.h"
#include "lib/config/choice.h"
#include "lib/config/token_bounds.h"

namespace buttress {
namespace {

double BytesOfValue(const RunConfig& config) {
  return config.run.model.dtype == ModelDtype::kFloat32 ? 4 : 2;
}

std::string WorkerAdvice(const RunConfig& config, const MemoryNeed& need) {
  if (need.passes > need.state) {
    return fmt::format("lower local.worker.kv_cache_tokens ({})",
                       config.local.worker.kv_cache_tokens);
  }
  return config.local.launch.workers > 1 ? "lower local.launch.workers"
                                         : "set run.model.dtype: bfloat16, or take a smaller model";
}

std::string Part(std::int64_t count, const char* what, double state, double most) {
  return fmt::format("{} {} of {} to {}", count, what, SizeText(state), SizeText(most));
}

// Compares what the workers on a GPU need with its memory.
void CheckWorkersGpu(int gpu, const MemoryNeed& worker, double count, Findings& findings) {
  const Result<std::int64_t> bytes = CudaDeviceBytes(gpu);
  if (!bytes.ok() || worker.most() == 0) return;
  const auto has = static_cast<double>(*bytes);
  const char* setting = "lower local.worker.kv_cache_tokens or local.launch.workers";
  const std::string text =
      fmt::format("GPU {}: {} to {} are needed, it has {}", gpu, SizeText(count * worker.state),
                  SizeText(count * worker.most()), SizeText(has));
  if (count * worker.state > has) {
    findings.Error("GPU memory", fmt::format("{}; {}", text, setting));
  } else if (count * worker.most() > has) {
    findings.Warn("GPU memory", fmt::format("{}, which full caches may exceed; {}", text, setting));
  } else {
    findings.Ok("GPU memory", text);
  }
}

// Micro-batches are filled, so a rank that does not fit with a full one would fail in its first
// step.
void CheckRanksGpu(const RunConfig& config, const ModelConfig& model, std::int64_t ranks,
                   double ranks_on_gpu, Findings& findings) {
  const Result<std::int64_t> bytes = CudaDeviceBytes(0);
  if (!bytes.ok()) return;
  const double has = static_cast<double>(*bytes) / ranks_on_gpu;
  const Result<ZeroStage> stage = ChooseZeroStage(config, model, ranks, has);
  if (!stage.ok()) return findings.Error("GPU memory", stage.status().message());
  const MemoryPlan plan =
      PlanLearnerMemory(config, model, FullMicroBatch(config, model), ranks, *stage);
  const std::string text = fmt::format("a learner rank needs {} (zero: {}); it has {} of GPU 0",
                                       DescribePlan(plan), ChoiceName(*stage), SizeText(has));
  if (plan.peak() > has) return findings.Error("GPU memory", text + "; " + AdviceFor(plan, config));
  findings.Ok("GPU memory", text);
}

}  // namespace

double RankMemory(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
                  const MachineMemory& machine) {
  const bool beside = config.local.worker.device == ComputeDevice::kCpu;
  const double workers =
      beside ? static_cast<double>(processes.workers) * WorkerMemory(config, model).most() : 0;
  return (static_cast<double>(machine.limit) - workers) / static_cast<double>(processes.ranks);
}

MemoryNeed WorkerMemory(const RunConfig& config, const ModelFacts& model) {
  MemoryNeed need;
  const WorkerConfig& worker = config.local.worker;
  if (worker.engine != EngineKind::kEmbedded) return need;
  need.state = static_cast<double>(model.parameters) * BytesOfValue(config);
  if (!model.config) return need;
  double values = 0;
  for (const BlockSpec& block : model.config->blocks)
    values += 2 * static_cast<double>(block.attention.kv_width());
  const auto most = static_cast<double>(std::min(
      worker.kv_cache_tokens,
      worker.max_running * (config.run.data.max_prompt_tokens + MostBehindPrompt(config.run))));
  need.passes = values * most * BytesOfValue(config);
  // While new weights are read, the worker samples with the old ones.
  if (!config.run.lora.on()) need.passes += need.state;
  return need;
}

MachineMemory ThisMachine() { return {MemoryLimit(), AvailableMemory()}; }

void CheckMemory(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
                 const MachineMemory& machine, Findings& findings) {
  if (!model.config || machine.limit == 0) return;
  const LocalSettings& local = config.local;
  const bool ranks_here = processes.ranks > 0 && local.learner.device == ComputeDevice::kCpu;
  MemoryPlan rank;
  if (ranks_here) {
    const Result<ZeroStage> stage = ChooseZeroStage(config, *model.config, processes.job(),
                                                    RankMemory(config, model, processes, machine));
    if (!stage.ok()) return findings.Error("memory", stage.status().message());
    rank = PlanLearnerMemory(config, *model.config, FullMicroBatch(config, *model.config),
                             processes.job(), *stage);
    findings.Ok("memory of a learner rank",
                fmt::format("{} (zero: {})", DescribePlan(rank), ChoiceName(*stage)));
  }
  const MemoryNeed worker = WorkerMemory(config, model);
  const auto ranks = static_cast<double>(ranks_here ? processes.ranks : 0);
  const auto workers =
      static_cast<double>(local.worker.device == ComputeDevice::kCpu ? processes.workers : 0);
  const double state = ranks * rank.state() + workers * worker.state;
  const double most = ranks * rank.peak() + workers * worker.most();
  if (most == 0) return;
  std::string text;
  if (ranks > 0) text = Part(processes.ranks, "learner ranks", rank.state(), rank.peak());
  if (workers * worker.most() > 0) {
    text += (text.empty() ? "" : ", ") +
            Part(processes.workers, "workers", worker.state, worker.most());
  }
  const auto limit = static_cast<double>(machine.limit);
  text += "; the machine has " + SizeText(limit);
  const std::string advice = ranks * rank.peak() >= workers * worker.most()
                                 ? AdviceFor(rank, config)
                                 : WorkerAdvice(config, worker);
  if (state > limit) {
    findings.Error("memory", text + "; " + advice);
  } else if (most > limit) {
    findings.Warn("memory", text + ", which full batches and caches may exceed; " + advice);
  } else if (machine.available > 0 && state > static_cast<double>(machine.available)) {
    findings.Warn("memory", fmt::format("{}, of which {} are free; end other programs, or {}", text,
                                        SizeText(static_cast<double>(machine.available)), advice));
  } else {
    findings.Ok("memory", text);
  }
}

void CheckReference(const RunConfig& config, Findings& findings) {
  if (config.local.learner.reference == ReferencePlace::kDevice) return;
  const char* const key = "local.learner.reference";
  if (config.run.algorithm.kl_coef == 0) {
    findings.Warn(
        key,
        "disk has no effect where run.algorithm.kl_coef is 0: there is no reference model; "
        "leave it out, or set kl_coef");
  } else if (config.run.lora.on()) {
    findings.Warn(
        key,
        "disk has no effect with run.lora: the reference is the model itself without what "
        "it has learned; leave it out");
  }
}

void CheckGpus(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
               Findings& findings) {
  const LocalSettings& local = config.local;
  const std::int64_t ranks = local.learner.device == ComputeDevice::kCuda ? processes.ranks : 0;
  const bool sampling =
      local.worker.engine == EngineKind::kEmbedded && local.worker.device == ComputeDevice::kCuda;
  const std::int64_t workers = sampling ? processes.workers : 0;
  if (ranks + workers == 0) {
    if (local.worker.vllm.launch.gpus.empty())
      findings.Ok("GPUs", "skipped: nothing here computes on a GPU (device: cpu)");
    return;  // the GPUs of vLLM have a check of their own
  }
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
  if (ranks > 0 && model.config) {
    CheckRanksGpu(config, *model.config, processes.job(),
                  std::ceil(static_cast<double>(ranks) / static_cast<double>(own)), findings);
  }
  if (workers == 0) return;
  CheckWorkersGpu(static_cast<int>(shared ? local.worker.gpu : own), WorkerMemory(config, model),
                  shared ? static_cast<double>(workers) : 1.0, findings);
}

}  // namespace buttress
