#include "lib/checks/memory_checks.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/os/memory.h"
#include "lib/collectives/cuda_library.h"
#include "lib/collectives/gpu_choice.h"

namespace buttress {
namespace {

constexpr double kFloat = 4;  // bytes of logits, whatever the model computes in

double BytesOfValue(const RunConfig& config) {
  return config.run.model.dtype == ModelDtype::kFloat32 ? 4 : 2;
}

double ValuesOfToken(const ModelConfig& model) { return static_cast<double>(model.vocab_size); }

// What the backward pass of a block keeps of a token: the inputs of its norms and linear layers,
// queries, keys and values, what attention returns, and the MLP's gate, value and product.
double ActivationsOfBlock(const BlockSpec& block) {
  const AttentionSpec& attention = block.attention;
  const std::int64_t active = std::max<std::int64_t>(1, block.experts.top_k);
  return static_cast<double>(6 * block.D + 3 * attention.q_width() + 4 * attention.kv_width() +
                             4 * block.F * active);
}

double ActivationsOfToken(const RunConfig& config, const ModelConfig& model) {
  double sum = 0, largest = 0;
  for (const BlockSpec& block : model.blocks) {
    const double values = ActivationsOfBlock(block);
    sum += config.local.learner.recompute ? static_cast<double>(block.D) : values;
    largest = std::max(largest, values);
  }
  return config.local.learner.recompute ? sum + largest : sum;
}

double BytesOfTrainedParameter(const RunConfig& config) {
  if (config.run.model.dtype == ModelDtype::kFloat32) return 16;
  return config.run.optim.precision == OptimPrecision::kStochastic ? 10 : 18;
}

std::string LearnerAdvice(const RunConfig& config, const MemoryNeed& need) {
  if (need.passes > need.state) {
    return fmt::format("lower local.learner.micro_batch_tokens ({}){}",
                       config.local.learner.micro_batch_tokens,
                       config.local.learner.recompute ? "" : " or set local.learner.recompute");
  }
  if (config.run.model.dtype == ModelDtype::kFloat32) return "set run.model.dtype: bfloat16";
  if (config.run.optim.precision != OptimPrecision::kStochastic)
    return "set run.optim.precision: stochastic";
  return "lower local.launch.learner_ranks, or take a smaller model";
}

std::string WorkerAdvice(const RunConfig& config, const MemoryNeed& need) {
  if (need.passes > need.state) {
    return fmt::format("lower local.worker.kv_cache_tokens ({})",
                       config.local.worker.kv_cache_tokens);
  }
  return config.local.launch.workers > 1 ? "lower local.launch.workers"
                                         : "set run.model.dtype: bfloat16, or take a smaller model";
}

std::string Part(std::int64_t count, const char* what, const MemoryNeed& need) {
  return fmt::format("{} {} of {} to {}", count, what, SizeText(need.state), SizeText(need.most()));
}

// Compares what the processes on a GPU need with its memory. `setting` lowers it.
void CheckGpuMemory(int gpu, double state, double most, const char* setting, Findings& findings) {
  const Result<std::int64_t> bytes = CudaDeviceBytes(gpu);
  if (!bytes.ok() || most == 0) return;
  const auto has = static_cast<double>(*bytes);
  const std::string text = fmt::format("GPU {}: {} to {} are needed, it has {}", gpu,
                                       SizeText(state), SizeText(most), SizeText(has));
  if (state > has) {
    findings.Error("GPU memory", text + "; " + setting);
  } else if (most > has) {
    findings.Warn("GPU memory", text + ", which full batches and caches may exceed; " + setting);
  } else {
    findings.Ok("GPU memory", text);
  }
}

}  // namespace

MemoryNeed LearnerMemory(const RunConfig& config, const ModelFacts& model) {
  MemoryNeed need;
  const auto parameters = static_cast<double>(model.parameters);
  need.state = parameters * BytesOfTrainedParameter(config);
  if (config.run.algorithm.kl_coef > 0) need.state += parameters * BytesOfValue(config);
  if (!model.config) return need;
  const LearnerConfig& learner = config.local.learner;
  // A longer completion goes alone.
  const auto tokens =
      static_cast<double>(std::max(learner.micro_batch_tokens, config.run.sampling.max_tokens));
  // Logits, their softmax and the gradient.
  const double logits = 3 * kFloat * ValuesOfToken(*model.config) *
                        std::min(static_cast<double>(learner.logprob_chunk_tokens), tokens);
  need.passes = tokens * ActivationsOfToken(config, *model.config) * BytesOfValue(config) + logits;
  return need;
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
      worker.max_running * (config.run.data.max_prompt_tokens + config.run.sampling.max_tokens)));
  need.passes = values * most * BytesOfValue(config);
  if (worker.device == ComputeDevice::kCpu) need.passes += need.state;
  return need;
}

MachineMemory ThisMachine() { return {MemoryLimit(), AvailableMemory()}; }

void CheckMemory(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
                 const MachineMemory& machine, Findings& findings) {
  if (model.parameters == 0 || machine.limit == 0) return;
  const LocalSettings& local = config.local;
  const MemoryNeed rank = LearnerMemory(config, model), worker = WorkerMemory(config, model);
  const auto ranks =
      static_cast<double>(local.learner.device == ComputeDevice::kCpu ? processes.ranks : 0);
  const auto workers =
      static_cast<double>(local.worker.device == ComputeDevice::kCpu ? processes.workers : 0);
  const double state = ranks * rank.state + workers * worker.state;
  const double most = ranks * rank.most() + workers * worker.most();
  if (most == 0) return;
  std::string text;
  if (ranks > 0) text = Part(processes.ranks, "learner ranks", rank);
  if (workers * worker.most() > 0)
    text += (text.empty() ? "" : ", ") + Part(processes.workers, "workers", worker);
  const auto limit = static_cast<double>(machine.limit);
  text += "; the machine has " + SizeText(limit);
  const std::string advice = ranks * rank.most() >= workers * worker.most()
                                 ? LearnerAdvice(config, rank)
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
