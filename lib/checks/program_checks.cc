#include "lib/checks/program_checks.h"

#include <algorithm>
#include <filesystem>

#include "lib/checks/coordinator_checks.h"
#include "lib/checks/gpu_checks.h"
#include "lib/checks/machine_checks.h"
#include "lib/checks/memory_checks.h"
#include "lib/checks/model_checks.h"
#include "lib/checks/prompt_checks.h"
#include "lib/checks/reward_checks.h"
#include "lib/config/sources.h"

namespace buttress {
namespace {

constexpr std::size_t kRows = 2000;

// The machine of a worker need not have the prompts, on whose rows the reward is tried.
void CheckWorkerReward(const RunSettings& run, const ModelFacts& model, Findings& findings) {
  const bool here = std::ranges::all_of(DatasetsOf(run), [](const PromptDataset& dataset) {
    std::error_code error;
    return std::filesystem::exists(dataset.data.prompts, error);
  });
  if (model.tokenizer && here) {
    CheckReward(run, *model.tokenizer, findings);
  } else {
    CheckVerifiers(run, findings);
  }
}

}  // namespace

Findings CheckCoordinatorPart(const RunConfig& config) {
  Findings findings;
  const ModelFacts model = CheckModel(config.run, findings);
  CheckPrompts(config.run, model, kRows, /*out=*/"", findings);
  CheckCredentials(config.local, Program::kCoordinator, findings);
  CheckPorts(CoordinatorListeners(config.local), findings);
  CheckDisk(config, model.parameters, findings);
  return findings;
}

Findings CheckWorkerPart(const RunConfig& config) {
  Findings findings;
  const ModelFacts model = CheckModel(config.run, findings);
  CheckWorkerReward(config.run, model, findings);
  CheckCredentials(config.local, Program::kWorker, findings);
  CheckPorts(WorkerListeners(config.local), findings);
  const ProcessCounts own{.workers = 1, .ranks = 0};
  CheckMemory(config, model, own, ThisMachine(), findings);
  CheckGpus(config, model, own, findings);
  CheckSharedFolder(config, findings);
  CheckCoordinator(config, Program::kWorker, findings);
  return findings;
}

Findings CheckLearnerPart(const RunConfig& config, std::int64_t ranks, bool is_first) {
  Findings findings;
  const ModelFacts model = CheckModel(config.run, findings);
  CheckCredentials(config.local, Program::kLearner, findings);
  CheckPorts(LearnerListeners(config.local, ranks, is_first), findings);
  if (is_first) CheckDisk(config, model.parameters, findings);
  const ProcessCounts own{.workers = 0, .ranks = ranks};
  CheckMemory(config, model, own, ThisMachine(), findings);
  CheckGpus(config, model, own, findings);
  CheckCoordinator(config, Program::kLearner, findings);
  return findings;
}

}  // namespace buttress
