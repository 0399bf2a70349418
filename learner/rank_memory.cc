#include "learner/rank_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "lib/base/report/log.h"
#include "lib/checks/learner_memory.h"
#include "lib/checks/memory_checks.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/choice.h"
#include "lib/policy/model_config.h"

namespace buttress {
namespace {

// The bytes of the device that this rank may take; 0 if they are not known.
double DeviceBytes(const RunConfig& config, const ModelConfig& model, const RankDevice& own) {
  const std::int64_t ranks = own.place.size;
  if (!own.device.cuda) {
    ModelFacts facts;
    facts.config = model;
    const ProcessCounts here{.workers = config.local.launch.workers, .ranks = ranks};
    return RankMemory(config, facts, here, ThisMachine());
  }
  const Result<std::int64_t> bytes = CudaDeviceBytes(own.device.index);
  if (!bytes.ok()) return 0;
  const std::int64_t gpus = std::max(1, VisibleCudaDevices());
  const std::int64_t sharing = config.local.learner.share_gpu ? (ranks + gpus - 1) / gpus : 1;
  return static_cast<double>(*bytes) / static_cast<double>(sharing);
}

// Returns the highest stage of all ranks; kInvalidArgument if one of them has none.
Result<ZeroStage> Agree(const Result<ZeroStage>& own, std::chrono::milliseconds timeout,
                        Collective& control) {
  constexpr std::size_t kNone = static_cast<std::size_t>(ZeroStage::kAuto);
  std::int64_t votes[kNone + 1] = {};
  ++votes[own.ok() ? static_cast<std::size_t>(*own) : kNone];
  BUTTRESS_RETURN_IF_ERROR(
      control.AllReduceSum({votes, kNone + 1, DType::kInt64})->Wait(timeout).Annotate("stage"));
  if (!own.ok()) return own.status();
  if (votes[kNone] > 0) {
    return InvalidArgument(std::to_string(votes[kNone]) +
                           " other ranks do not fit into their memory; their logs say what to "
                           "change");
  }
  std::size_t highest = kNone;
  while (votes[--highest] == 0) {
  }
  return static_cast<ZeroStage>(highest);
}

}  // namespace

Result<ZeroStage> PlanRankMemory(const RunConfig& config, const RankDevice& own,
                                 Collective& control) {
  const Result<ModelConfig> loaded = LoadModelConfig(config.run.model.path);
  if (!loaded.ok()) return AsInput(loaded.status()).Annotate("run.model.path");
  const ModelConfig& model = *loaded;
  const double bytes = DeviceBytes(config, model, own);
  const std::chrono::milliseconds timeout(config.local.learner.collective_timeout_ms);
  BUTTRESS_ASSIGN_OR_RETURN(
      const ZeroStage stage,
      Agree(ChooseZeroStage(config, model, control.size(), bytes), timeout, control));
  const MemoryPlan plan =
      PlanLearnerMemory(config, model, FullMicroBatch(config, model), control.size(), stage);
  const LogLevel level = bytes > 0 && plan.peak() > bytes ? kWarn : kInfo;
  Log(level, "memory of this rank, planned",
      {{"zero", ChoiceName(stage)}, {"plan", DescribePlan(plan)}, {"has", SizeText(bytes)}});
  return stage;
}

}  // namespace buttress
