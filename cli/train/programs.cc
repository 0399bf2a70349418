#include "cli/train/programs.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/fleet/fleet.h"
#include "cli/fleet/ssh_session.h"
#include "cli/process.h"
#include "lib/base/os/busy_mark.h"
#include "lib/base/os/file.h"
#include "lib/checks/vllm_checks.h"
#include "lib/collectives/cuda_library.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxAddressBytes = 4096;

void Add(const fs::path& path, const std::string& run_name, const char* role,
         nlohmann::ordered_json& targets) {
  auto address = ReadFile(path.string(), kMaxAddressBytes);
  if (!address.ok()) return;  // not bound yet
  address->erase(address->find_last_not_of(" \n") + 1);
  targets.push_back(
      {{"targets", {*address}},
       {"labels", {{"run", run_name}, {"role", role}, {"id", path.stem().string()}}}});
}

}  // namespace

std::int64_t WorkerThreads(const LocalSettings& local, std::int64_t cores) {
  const LaunchConfig& launch = local.launch;
  const std::int64_t left = cores - launch.learner_ranks * local.learner.threads;
  return std::max<std::int64_t>(1, left / std::max<std::int64_t>(1, launch.workers));
}

RunPrograms::RunPrograms(const RunFile& file, const RunConfig& config, std::optional<Fleet> fleet,
                         std::function<void(const std::string&)> say)
    : file_(file),
      config_(config),
      fleet_(std::move(fleet)),
      supervisor_(
          JoinPath(config.local.out, "logs"),
          {static_cast<int>(config.local.launch.max_restarts), config.local.launch.forgive_ms},
          std::move(say)) {}

Result<std::vector<std::string>> RunPrograms::Prepare() {
  std::vector<std::string> warnings;
  if (fleet_) {
    Findings findings;
    BUTTRESS_RETURN_IF_ERROR(fleet_->Check(config_, findings));
    for (const Finding& finding : findings.list()) {
      if (finding.severity == Severity::kWarning)
        warnings.push_back(fmt::format("{}: {}", finding.check, finding.text));
    }
  } else if (WorkersNeedGpus(config_.local)) {
    const Result<int> visible = CountCudaDevices();
    if (!visible.ok()) {
      return FailedPrecondition("local.worker.device: cuda: " + visible.status().message() +
                                "; use cpu, or check nvidia-smi");
    }
    BUTTRESS_ASSIGN_OR_RETURN(worker_gpus_, AssignWorkerGpus(config_.local, *visible));
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(server_ports_,
                              ReservePorts(LaunchedServers(config_.local.worker.vllm.launch)));
  }
  return warnings;
}

Status RunPrograms::Start() {
  BUTTRESS_RETURN_IF_ERROR(
      supervisor_.Start("coordinator", CommandLine({SiblingProgram("coordinator")})));
  std::size_t server = 0;
  for (std::vector<std::string>& argv : ServerCommandLines()) {
    BUTTRESS_RETURN_IF_ERROR(
        supervisor_.Start("vllm-" + std::to_string(server++), std::move(argv)));
  }
  for (std::int64_t i = 0; i < config_.local.launch.workers; ++i) {
    BUTTRESS_RETURN_IF_ERROR(
        supervisor_.Start("worker-w" + std::to_string(i), WorkerCommandLine(i)));
  }
  if (config_.local.track.any()) {
    BUTTRESS_RETURN_IF_ERROR(
        supervisor_.Start("track", CommandLine({SiblingProgram("buttress"), "track", "--follow"}),
                          Supervisor::Need::kOptional));
  }
  if (config_.run.eval.every != 0) {
    BUTTRESS_RETURN_IF_ERROR(
        supervisor_.Start("evaluator", CommandLine({SiblingProgram("rollout_worker"), "evaluator"}),
                          Supervisor::Need::kOptional));
  }
  return supervisor_.Start("learner", LearnerCommandLine());
}

std::vector<std::string> RunPrograms::CommandLine(std::vector<std::string> argv,
                                                  const std::vector<std::string>& more) const {
  for (std::string& argument : file_.Arguments()) argv.push_back(std::move(argument));
  for (const std::string& override : more) argv.insert(argv.end(), {"--set", override});
  return argv;
}

std::vector<std::string> RunPrograms::WorkerCommandLine(std::int64_t worker) const {
  if (fleet_) return fleet_->WorkerCommand(config_, worker);
  std::vector<std::string> own = {"local.worker.id=w" + std::to_string(worker)};
  if (config_.local.worker.threads == 0)
    own.push_back(
        "local.worker.threads=" +
        std::to_string(WorkerThreads(config_.local, std::thread::hardware_concurrency())));
  if (!worker_gpus_.empty())
    own.push_back("local.worker.gpu=" +
                  std::to_string(worker_gpus_[static_cast<std::size_t>(worker)]));
  if (!server_ports_.empty()) {
    const std::int64_t workers = config_.local.launch.workers;
    own.push_back(ServersSetting(PortsOf(server_ports_), worker, workers));
    own.push_back(GpusSetting(config_.local.worker.vllm.launch, worker, workers));
  }
  return CommandLine({SiblingProgram("rollout_worker")}, own);
}

std::vector<std::vector<std::string>> RunPrograms::ServerCommandLines() const {
  if (fleet_) return fleet_->ServerCommands(config_);
  std::vector<std::vector<std::string>> commands;
  for (const int port : PortsOf(server_ports_))
    commands.push_back(CommandLine(ServerProgram(std::ssize(commands), port)));
  return commands;
}

std::vector<std::string> RunPrograms::LearnerCommandLine() const {
  const auto hosts = fleet_ ? fleet_->MpirunArguments() : std::vector<std::string>();
  std::vector<std::string> argv = MpirunCommand(config_.local, hosts);
  argv.push_back(SiblingProgram("learner"));
  argv.insert(argv.end(), {"--expect-world", std::to_string(config_.local.launch.learner_ranks)});
  if (hosts.empty()) return CommandLine(std::move(argv));
  argv.insert(argv.end(), {"--config", SentConfigPath(config_.local.out)});  // same everywhere
  return argv;
}

Supervisor::Patience RunPrograms::Clean() const { return {config_.local.launch.stop_timeout_ms}; }

void RunPrograms::StopAllButLearner() {
  for (const char* role : {"worker-", "vllm-", "evaluator", "track", "coordinator"})
    supervisor_.Stop(role, SIGTERM, Clean());
}

void RunPrograms::EndFinished() {
  constexpr std::int64_t kExitMs = 5000;
  supervisor_.ExpectExits();
  supervisor_.Stop("worker-", 0, {kExitMs});
  StopAllButLearner();
}

void RunPrograms::Stop(bool checkpoint, const std::function<void()>& waits) {
  supervisor_.ExpectExits();
  Supervisor::Patience learner = Clean();
  learner.busy = [this, &waits] {
    waits();
    return IsBusy(CheckpointMark(config_.local.out));
  };
  learner.busy_ms = config_.local.learner.stuck_timeout_ms;
  if (!checkpoint || !supervisor_.Stop("learner", SIGUSR1, learner))
    supervisor_.Stop("learner", SIGTERM, Clean());
  StopAllButLearner();
}

Status TargetsFile::Refresh() {
  auto targets = nlohmann::ordered_json::array();
  Add(fs::path(out_) / "coordinator.metrics", run_name_, "coordinator", targets);
  for (const auto& [folder, role] : {std::pair("workers", "worker"), {"learner", "learner"}}) {
    std::vector<fs::path> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(out_) / folder, error)) {
      if (entry.path().extension() == ".metrics") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    for (const fs::path& file : files) Add(file, run_name_, role, targets);
  }
  const std::string text = targets.dump(2) + "\n";
  if (targets.empty() || text == written_) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(out_, "targets.json"), text));
  written_ = text;
  return OkStatus();
}

}  // namespace buttress
