#include "lib/checks/vllm_checks.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "lib/base/os/program_path.h"
#include "lib/checks/learner_memory.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/choice.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBinary = "local.worker.vllm.launch.binary";
constexpr const char* kGpus = "local.worker.vllm.launch.gpus";
constexpr const char* kColocate = "local.worker.vllm.launch.colocate";
constexpr const char* kTensorParallel = "local.worker.vllm.launch.tensor_parallel";
constexpr std::array kLeastVersion = {0, 16};
constexpr std::array kLeastNative = {0, 32};  // whose transfers are as the worker's
constexpr std::array kLeastSleep = {0, 32};   // that stays paused until all of it is awake
constexpr std::int64_t kLoraRanks[] = {1, 8, 16, 32, 64, 128, 256, 320, 512};
// What vLLM takes of a GPU, and by default.
constexpr std::string_view kShareFlag = "--gpu-memory-utilization";
constexpr double kShareOfGpu = 0.9;
// What a sleeping server keeps of a GPU: CUDA, NCCL and graphs. An estimate.
constexpr double kAsleepBytes = 2.0 * (1 << 30);

// The part of its GPUs that a server takes, by launch.args.
double ShareOfGpu(const VllmLaunchConfig& launch) {
  double share = kShareOfGpu;
  for (std::size_t i = 0; i < launch.args.size(); ++i) {
    const std::string& arg = launch.args[i];
    if (!arg.starts_with(kShareFlag)) continue;
    const bool joined = arg.size() > kShareFlag.size();
    const std::string value = joined                       ? arg.substr(kShareFlag.size() + 1)
                              : i + 1 < launch.args.size() ? launch.args[i + 1]
                                                           : "";
    share = std::strtod(value.c_str(), nullptr);
  }
  return share;
}

void CheckBinary(const VllmLaunchConfig& launch, VllmWeights weights, Findings& findings) {
  const std::string path = FindProgram(launch.binary);
  if (path.empty()) {
    return findings.Error(
        kBinary, fmt::format("no program {}; `deploy/setup.sh --vllm DIR` installs vLLM and makes "
                             "DIR/bin/vllm",
                             launch.binary));
  }
  const std::string version = VllmVersionOf(path);
  std::array<int, 2> parts = {};
  if (std::sscanf(version.c_str(), "%d.%d", parts.data(), &parts[1]) != 2) {
    return findings.Warn(kBinary, fmt::format("{} has no package vllm next to it, so that its "
                                              "version is not known; expected {}.{} or newer",
                                              path, kLeastVersion[0], kLeastVersion[1]));
  }
  if (parts < kLeastVersion) {
    return findings.Error(kBinary, fmt::format("{} is vLLM {}; expected {}.{} or newer: install "
                                               "one by `deploy/setup.sh --vllm DIR`",
                                               path, version, kLeastVersion[0], kLeastVersion[1]));
  }
  const bool native = weights == VllmWeights::kNccl || weights == VllmWeights::kIpc;
  if (native && parts < kLeastNative) {
    return findings.Error(
        "local.worker.vllm.weights",
        fmt::format("{}, and {} is vLLM {}; install {}.{} or newer, or set file",
                    ChoiceName(weights), path, version, kLeastNative[0], kLeastNative[1]));
  }
  if (launch.colocate && parts < kLeastSleep) {
    return findings.Error(kColocate, fmt::format("{} is vLLM {}; install {}.{} or newer", path,
                                                 version, kLeastSleep[0], kLeastSleep[1]));
  }
  findings.Ok(kBinary, fmt::format("{} is vLLM {}", path, version));
}

void CheckTransferGpu(const VllmConfig& vllm, Findings& findings) {
  const bool used = vllm.weights == VllmWeights::kNccl ||
                    (vllm.weights == VllmWeights::kIpc && !vllm.launch.on());
  if (!used || vllm.transfer.gpu < VisibleCudaDevices()) return;
  findings.Error("local.worker.vllm.transfer.gpu",
                 fmt::format("GPU {} is not there: {} are visible, counted from 0; name one of "
                             "them, or set local.worker.vllm.weights: file",
                             vllm.transfer.gpu, VisibleCudaDevices()));
}

void CheckServersAndWorkers(const VllmConfig& vllm, std::int64_t workers, Findings& findings) {
  if (!vllm.servers.empty()) {
    findings.Error("local.worker.vllm.servers",
                   "is set as well as local.worker.vllm.launch.binary; leave out the servers, "
                   "which launch names, or the binary where others start them");
  }
  const std::int64_t servers = LaunchedServers(vllm.launch);
  if (workers > servers) {
    findings.Error("local.launch.workers",
                   fmt::format("{} workers on this machine share {} vLLM servers; expected at most "
                               "a worker for each: one worker feeds several servers",
                               workers, servers));
  }
}

void CheckHeads(const VllmLaunchConfig& launch, const ModelConfig& model, Findings& findings) {
  const std::int64_t size = launch.tensor_parallel;
  for (const BlockSpec& block : model.blocks) {
    const std::int64_t heads = block.attention.H, kv_heads = block.attention.K;
    if (heads % size == 0 && (kv_heads == 0 || kv_heads % size == 0 || size % kv_heads == 0))
      continue;
    return findings.Error(kTensorParallel,
                          fmt::format("{} GPUs cannot divide the {} heads and {} key-value heads "
                                      "of the model; expected a divisor of {}",
                                      size, heads, kv_heads, heads));
  }
}

// Whether the GPUs are there and not those of the learner's ranks, which take the first ones.
bool CheckGpuNumbers(const RunConfig& config, std::int64_t ranks, Findings& findings) {
  const std::vector<std::int64_t>& gpus = config.local.worker.vllm.launch.gpus;
  const Result<int> visible = CountCudaDevices();
  if (!visible.ok()) {
    findings.Error(kGpus, visible.status().message() +
                              "; leave gpus out for a server on the CPU, or check nvidia-smi");
    return false;
  }
  if (const std::int64_t last = *std::ranges::max_element(gpus); last >= *visible) {
    findings.Error(kGpus, fmt::format("GPU {} is not there: {} are visible, counted from 0; name "
                                      "some of them",
                                      last, *visible));
    return false;
  }
  if (config.local.learner.device != ComputeDevice::kCuda ||
      config.local.worker.vllm.launch.colocate)
    return true;
  const std::int64_t taken =
      config.local.learner.share_gpu ? std::min<std::int64_t>(ranks, *visible) : ranks;
  std::vector<std::int64_t> both;
  std::ranges::copy_if(gpus, std::back_inserter(both),
                       [&](std::int64_t gpu) { return gpu < taken; });
  if (both.empty()) return true;
  findings.Error(kGpus, fmt::format("the {} learner ranks of this machine take GPUs 0 to {}, and "
                                    "[{}] are among them; name GPUs from {} on, lower "
                                    "local.launch.learner_ranks, or let both take turns: "
                                    "launch.colocate",
                                    ranks, taken - 1, fmt::join(both, ", "), taken));
  return false;
}

void CheckWeightsFit(const RunConfig& config, const ModelFacts& model, Findings& findings) {
  const VllmLaunchConfig& launch = config.local.worker.vllm.launch;
  const double value = config.run.model.dtype == ModelDtype::kFloat32 ? 4 : 2;
  const double weights =
      static_cast<double>(model.parameters) * value / static_cast<double>(launch.tensor_parallel);
  for (const std::int64_t gpu : launch.gpus) {
    const Result<std::int64_t> bytes = CudaDeviceBytes(static_cast<int>(gpu));
    if (!bytes.ok()) continue;
    const double share = ShareOfGpu(launch);
    const double has = share * static_cast<double>(*bytes);
    const std::string text = fmt::format(
        "the weights take {} of the {} that vLLM uses of GPU {} ({:.2g} of it), the key-value "
        "cache the rest",
        SizeText(weights), SizeText(has), gpu, share);
    if (weights > has) {
      return findings.Error(kGpus, text +
                                       "; raise local.worker.vllm.launch.tensor_parallel, or "
                                       "take a smaller model");
    }
    if (gpu == launch.gpus.front()) findings.Ok(kGpus, text);
  }
}

// A rank between two steps beside a server that is awake, and in a step beside one that sleeps.
void CheckTurns(const RunConfig& config, const ModelConfig& model, std::int64_t job_ranks,
                Findings& findings) {
  const VllmLaunchConfig& launch = config.local.worker.vllm.launch;
  const Result<std::int64_t> bytes = CudaDeviceBytes(static_cast<int>(launch.gpus.front()));
  if (!bytes.ok()) return;
  const auto has = static_cast<double>(*bytes);
  const Result<ZeroStage> stage = ChooseZeroStage(config, model, job_ranks, has - kAsleepBytes);
  if (!stage.ok()) return findings.Error(kColocate, stage.status().message());
  const MemoryPlan rank =
      PlanLearnerMemory(config, model, FullMicroBatch(config, model), job_ranks, *stage);
  const double waits = rank.state() - rank.gradients - rank.gathered;
  const double share = ShareOfGpu(launch);
  const std::string text = fmt::format(
      "a learner rank keeps {} of the {} of a GPU while it waits, and {} in a step; a "
      "server takes {} ({} {:.2g}), and keeps {} asleep, by estimate",
      SizeText(waits), SizeText(has), SizeText(rank.peak()), SizeText(share * has), kShareFlag,
      share, SizeText(kAsleepBytes));
  if (waits + share * has > has) {
    findings.Error(
        kColocate,
        fmt::format("{}; set launch.args: [{}, \"{:.2f}\"] or less, or {}", text, kShareFlag,
                    std::floor(100 * (1 - waits / has)) / 100, AdviceFor(rank, config)));
  } else if (rank.peak() + kAsleepBytes > has) {
    findings.Warn(kColocate, text + "; " + AdviceFor(rank, config));
  } else {
    findings.Ok(kColocate, text);
  }
}

}  // namespace

std::int64_t LaunchedServers(const VllmLaunchConfig& launch) {
  if (!launch.on()) return 0;
  const auto gpus = static_cast<std::int64_t>(launch.gpus.size());
  return gpus == 0 ? 1 : gpus / launch.tensor_parallel;
}

std::int64_t VllmLoraRank(std::int64_t rank) {
  const auto* const least = std::ranges::lower_bound(kLoraRanks, rank);
  return least == std::end(kLoraRanks) ? 0 : *least;
}

std::string VllmVersionOf(const std::string& binary) {
  constexpr std::string_view kPackage = "vllm-", kInfo = ".dist-info";
  std::error_code error;
  const fs::path folder = fs::canonical(binary, error).parent_path().parent_path() / "lib";
  for (const auto& python : fs::directory_iterator(folder, error)) {
    for (const auto& entry : fs::directory_iterator(python.path() / "site-packages", error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(kPackage) && name.ends_with(kInfo))
        return name.substr(kPackage.size(), name.size() - kPackage.size() - kInfo.size());
    }
  }
  return "";
}

void CheckVllmLaunch(const RunConfig& config, const ModelFacts& model, const ProcessCounts& here,
                     Findings& findings) {
  const VllmConfig& vllm = config.local.worker.vllm;
  if (config.local.worker.engine == EngineKind::kVllm && here.workers > 0)
    CheckTransferGpu(vllm, findings);
  if (!vllm.launch.on() || here.workers == 0) return;
  CheckBinary(vllm.launch, vllm.weights, findings);
  CheckServersAndWorkers(vllm, here.workers, findings);
  if (model.config) CheckHeads(vllm.launch, *model.config, findings);
  if (config.run.lora.on() && VllmLoraRank(config.run.lora.rank) == 0) {
    findings.Error("run.lora.rank", fmt::format("{}; vLLM takes {} at most", config.run.lora.rank,
                                                *std::rbegin(kLoraRanks)));
  }
  if (vllm.launch.gpus.empty() || !CheckGpuNumbers(config, here.ranks, findings)) return;
  CheckWeightsFit(config, model, findings);
  if (vllm.launch.colocate && model.config && here.ranks > 0)
    CheckTurns(config, *model.config, here.job(), findings);
}

}  // namespace buttress
