#include "cli/checks/run_checks.h"

#include "cli/checks/program_runs.h"
#include "cli/checks/resume_check.h"
#include "lib/checks/coordinator_checks.h"
#include "lib/checks/gpu_checks.h"
#include "lib/checks/machine_checks.h"
#include "lib/checks/model_checks.h"
#include "lib/checks/prompt_checks.h"
#include "lib/checks/reward_checks.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

constexpr std::size_t kQuickRows = 100, kAllRows = 2000;

void CheckListeners(const LocalSettings& local, const ProcessCounts& here, Findings& findings) {
  std::vector<ListenSetting> all = CoordinatorListeners(local);
  const auto add = [&all](const std::vector<ListenSetting>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  if (here.workers > 0) add(WorkerListeners(local));
  add(LearnerListeners(local, here.ranks, /*is_first=*/true));
  CheckPorts(all, findings);
}

// The programs read the same files, but for their tokens.
void CheckAllCredentials(const LocalSettings& local, Findings& findings) {
  for (const Program program :
       {Program::kCoordinator, Program::kWorker, Program::kLearner, Program::kStatus}) {
    Findings own;
    CheckCredentials(local, program, own);
    for (const Finding& finding : own.list()) findings.AddNew(finding);
  }
}

}  // namespace

Findings CheckRun(const RunConfig& config, const ProcessCounts& here, CheckDepth depth) {
  Findings findings;
  const ModelFacts model = CheckModel(config.run, findings);
  // Only a run that begins writes to its folder.
  const bool quick = depth == CheckDepth::kQuick;
  CheckPrompts(config.run, model, quick ? kQuickRows : kAllRows, quick ? config.local.out : "",
               findings);
  CheckPrograms(config.local, findings);
  CheckAllCredentials(config.local, findings);
  CheckListeners(config.local, here, findings);
  CheckDisk(config, model.parameters, findings);
  CheckMemory(config, model, here, ThisMachine(), findings);
  CheckGpus(config, model, here, findings);
  if (depth == CheckDepth::kQuick) return findings;
  // A reward needs rows that can be used; a model or file that cannot be is reported already.
  if (model.tokenizer && findings.Verdict().ok())
    CheckReward(config.run, *model.tokenizer, findings);
  if (config.local.worker.engine == EngineKind::kVllm)
    CheckServers(config.local.worker.vllm, findings);
  return findings;
}

std::vector<std::string> RunFile::Arguments() const {
  std::vector<std::string> argv = {"--config", path};
  for (const std::string& override : overrides) argv.insert(argv.end(), {"--set", override});
  return argv;
}

void CheckWithPrograms(const RunConfig& config, const RunFile& file,
                       const std::vector<std::string>& hosts, Findings& findings) {
  if (!findings.Verdict().ok()) return;  // the programs would only repeat it
  CheckLearnerJob(config, file.Arguments(), hosts, findings);
  const WorkerConfig& worker = config.local.worker;
  if (worker.engine == EngineKind::kVllm || worker.device == ComputeDevice::kCuda)
    CheckWorkerProgram(file.Arguments(), findings);
  CheckCoordinator(config, Program::kStatus, findings);
}

Findings CheckRunFile(const RunFile& file) {
  const auto config = LoadRunConfig(file.path, file.overrides);
  Findings findings;
  if (!config.ok()) {
    findings.Error("configuration", config.status().message());
    return findings;
  }
  const LaunchConfig& launch = config->local.launch;
  findings = CheckRun(*config, {launch.workers, launch.learner_ranks}, CheckDepth::kAll);
  CheckResume(*config, findings);
  CheckWithPrograms(*config, file, {}, findings);
  return findings;
}

}  // namespace buttress
