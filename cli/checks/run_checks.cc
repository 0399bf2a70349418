#include "cli/checks/run_checks.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "cli/checks/program_runs.h"
#include "cli/checks/resume_check.h"
#include "cli/fleet/ssh_session.h"
#include "lib/base/os/file.h"
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

// What the other machines of a run check is written below the run folder, so that it disturbs no
// run that uses it.
std::string FleetCheckFolder(const std::string& out) { return JoinPath(out, "check"); }

void CheckOthers(const RunConfig& config, Fleet& fleet, Findings& findings) {
  RunConfig own = config;
  own.local.out = FleetCheckFolder(config.local.out);
  Status status = MakeFolders(JoinPath(own.local.out, "logs"));
  if (status.ok()) status = fleet.Check(own, findings);
  if (!status.ok()) findings.Error("--hosts", status.message());
}

// `hosts` are arguments of mpirun (program_runs.h).
void CheckWithPrograms(const RunConfig& config, const RunFile& file,
                       const std::vector<std::string>& hosts, Findings& findings) {
  if (!findings.Verdict().ok()) return;  // the programs would only repeat it
  CheckLearnerJob(config, file.Arguments(), hosts, findings);
  const WorkerConfig& worker = config.local.worker;
  if (worker.engine == EngineKind::kVllm || worker.device == ComputeDevice::kCuda)
    CheckWorkerProgram(file.Arguments(), findings);
  CheckCoordinator(config, Program::kStatus, findings);
}

Findings Only(const std::string& check, const Status& status) {
  Findings findings;
  findings.Error(check, status.message());
  return findings;
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

void HostsFlags::AddTo(CLI::App& app) {
  app.add_option("--hosts", path,
                 "file with a machine a line, for a run on several over ssh, for example 'node2 "
                 "workers=4 ranks=1 address=10.0.0.2'; the line of this machine has 'coordinator'")
      ->type_name("FILE");
  app.add_option("--ssh", ssh, "with --hosts: the ssh command and its options")
      ->capture_default_str();
}

Result<std::optional<Fleet>> HostsFlags::Load(const LocalSettings& local, RunFile& run) const {
  if (path.empty()) return std::optional<Fleet>();
  BUTTRESS_ASSIGN_OR_RETURN(Fleet fleet, Fleet::Load(path, ssh));
  for (std::string& setting : fleet.Overrides(local)) run.overrides.push_back(std::move(setting));
  return std::optional<Fleet>(std::move(fleet));
}

Findings CheckRunFile(RunFile file, const HostsFlags& hosts, bool fresh) {
  auto config = LoadRunConfig(file.path, file.overrides);
  if (!config.ok()) return Only("configuration", config.status());
  auto fleet = hosts.Load(config->local, file);
  if (!fleet.ok()) return Only("--hosts", fleet.status());
  if (*fleet) config = LoadRunConfig(file.path, file.overrides);
  if (!config.ok()) return Only("configuration", config.status());

  const LaunchConfig& launch = config->local.launch;
  const ProcessCounts here =
      *fleet ? (*fleet)->Here() : ProcessCounts{launch.workers, launch.learner_ranks};
  Findings findings = CheckRun(*config, here, CheckDepth::kAll);
  if (!fresh) CheckResume(*config, findings);
  if (*fleet) CheckOthers(*config, **fleet, findings);
  const auto ranks_on = *fleet ? (*fleet)->MpirunArguments() : std::vector<std::string>();
  if (!ranks_on.empty()) file = {SentConfigPath(FleetCheckFolder(config->local.out)), {}};
  CheckWithPrograms(*config, file, ranks_on, findings);
  return findings;
}

}  // namespace buttress
