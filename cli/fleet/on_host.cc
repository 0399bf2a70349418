// `buttress on-host`: both ends of a program that `buttress launch --hosts` runs on another machine
// (cli/fleet/ssh_session.h).
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "cli/command.h"
#include "cli/fleet/fleet.h"
#include "cli/fleet/ssh_session.h"
#include "cli/process.h"
#include "cli/vllm/vllm_server.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/program_path.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/text/digest.h"
#include "lib/checks/memory_checks.h"
#include "lib/checks/model_checks.h"
#include "lib/checks/vllm_checks.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/load.h"
#include "lib/config/load_credentials.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxModelFileBytes = 256 << 20;
constexpr std::int64_t kMaxMarkBytes = 4096;

Status NeedProgram(const std::string& path) {
  if (OnPath(path)) return OkStatus();
  return InvalidArgument(path + " is not there; install the same programs at the same path");
}

// mpirun starts orted by ssh: next to itself if it was named with its folder, else on PATH.
Status NeedOrted(const std::string& mpirun) {
  if (mpirun.find('/') != std::string::npos)
    return NeedProgram((fs::path(mpirun).parent_path() / "orted").string());
  if (OnPath("orted")) return OkStatus();
  return InvalidArgument(
      "orted of Open MPI is not on the PATH of an ssh session; install the Open MPI of the "
      "launching machine, or name mpirun with its folder (local.launch.mpirun)");
}

Status NeedCredentials(const SecurityConfig& security, Program program) {
  return LoadCredentials(security, program).status();
}

// The files that make a model what it is: of weights the names and sizes, of the others the text.
std::string ModelDigest(const std::string& folder) {
  std::string text;
  for (const char* name : {"config.json", "tokenizer.json"}) {
    const auto file = ReadFile(JoinPath(folder, name), kMaxModelFileBytes);
    text += file.ok() ? ToHex(Sha256Of(*file)) : std::string("-");
  }
  std::error_code error;
  std::set<std::string> weights;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".safetensors") continue;
    weights.insert(fmt::format("{} {}", entry.path().filename().string(), entry.file_size(error)));
  }
  for (const std::string& file : weights) text += "\n" + file;
  return ToHex(Sha256Of(text)).substr(0, 16);
}

std::vector<int> Numbers(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<int>(words), std::istream_iterator<int>()};
}

// Model folder, memory, GPUs and vLLM for the processes of this machine.
Status CheckSizes(const HostNeeds& needs, const RunConfig& config, HostAnswer& answer) {
  Findings findings;
  const ModelFacts model = CheckModel(config.run, findings);
  if (needs.ranks > 0) CheckAdapter(config.run, findings);
  const ProcessCounts own{needs.workers, needs.ranks, config.local.launch.learner_ranks};
  CheckMemory(config, model, own, ThisMachine(), findings);
  CheckGpus(config, model, own, findings);
  CheckVllmLaunch(config, model, own, findings);
  for (const Finding& finding : findings.list()) {
    if (finding.severity == Severity::kError)
      return InvalidArgument(finding.check + ": " + finding.text);
    if (finding.severity == Severity::kWarning)
      answer.warnings.push_back(finding.check + ": " + finding.text);
  }
  return OkStatus();
}

struct OnHostOptions {
  bool agent = false, check = false, here = false, once = false;
  std::string cwd;
  HostNeeds needs;
  SshSession session;
  FarProgram far;
  std::vector<std::string> argv;
};

// A status of a program on another machine passes through this process unchanged.
[[noreturn]] void ExitWith(int code) {
  std::fflush(stdout);
  std::exit(code);
}

Status Check(const OnHostOptions& options) {
  if (!options.here) {
    BUTTRESS_ASSIGN_OR_RETURN([[maybe_unused]] const int done, RunFarProgram(options.far));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config,
                            LoadRunConfig(SentConfigPath(options.far.out), {}));
  BUTTRESS_ASSIGN_OR_RETURN(const HostAnswer answer, CheckThisHost(options.needs, config));
  fmt::print("{}", answer.ToText());
  return OkStatus();
}

Status RunAgent(OnHostOptions& options) {
  if (::chdir(options.cwd.c_str()) != 0) {
    return InvalidArgument("the working folder of launch, " + options.cwd +
                           ", cannot be entered: " + std::strerror(errno) + "; make it");
  }
  if (options.check) return Check(options);
  options.far.argv = options.argv;
  BUTTRESS_ASSIGN_OR_RETURN(const int code, RunFarProgram(options.far));
  ExitWith(code);
}

Status RunOnHost(OnHostOptions& options) {
  InstallShutdownHandlers();
  if (options.agent) return RunAgent(options);
  options.session.far = options.argv;
  options.session.retry = !options.once;
  options.session.stop_ms = options.far.stop_ms;
  ExitWith(RunSession(options.session));
}

}  // namespace

std::string HostAnswer::ToText() const {
  std::string text = fmt::format("gpus {}\nclock {}\nmodel {}\nfolder {}\nports {}\n", gpus,
                                 clock_ms, model, folder, fmt::join(ports, " "));
  for (const std::string& warning : warnings)
    text += "warning " + warning.substr(0, warning.find('\n')) + "\n";
  return text;
}

HostAnswer HostAnswer::FromText(const std::string& text) {
  HostAnswer answer;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string key = line.substr(0, space), value = line.substr(space + 1);
    if (key == "gpus") answer.gpus = std::atoi(value.c_str());
    if (key == "clock") answer.clock_ms = std::atoll(value.c_str());
    if (key == "model") answer.model = value;
    if (key == "folder") answer.folder = value;
    if (key == "ports") answer.ports = Numbers(value);
    if (key == "warning") answer.warnings.push_back(value);
  }
  return answer;
}

std::string FolderMarkPath(const std::string& out) { return JoinPath(out, "launch.mark"); }

std::int64_t ClockSkew(std::int64_t other_ms, std::int64_t before_ms, std::int64_t after_ms) {
  if (other_ms > after_ms) return other_ms - after_ms;
  return std::min<std::int64_t>(0, other_ms - before_ms);
}

Result<HostAnswer> CheckThisHost(const HostNeeds& needs, const RunConfig& config) {
  const LocalSettings& local = config.local;
  HostAnswer answer;
  answer.clock_ms = RealClock().UnixMs();
  if (needs.version != ProgramVersion()) {
    return InvalidArgument(
        fmt::format("the programs are of version {}, the launching machine's of "
                    "{}; install the same ones",
                    ProgramVersion(), needs.version));
  }
  if (!fs::is_directory(config.run.model.path)) {
    return InvalidArgument(fmt::format("run.model.path: no folder {}; copy it there",
                                       fs::absolute(config.run.model.path).string()));
  }
  if (needs.workers > 0) {
    BUTTRESS_RETURN_IF_ERROR(NeedProgram(SiblingProgram("rollout_worker")));
    BUTTRESS_RETURN_IF_ERROR(NeedCredentials(local.security, Program::kWorker));
  }
  if (needs.ranks > 0) {
    BUTTRESS_RETURN_IF_ERROR(NeedProgram(SiblingProgram("learner")));
    BUTTRESS_RETURN_IF_ERROR(NeedOrted(local.launch.mpirun));
    BUTTRESS_RETURN_IF_ERROR(NeedCredentials(local.security, Program::kLearner));
    const std::string& interface = local.learner.interface;
    if (!interface.empty() && ::if_nametoindex(interface.c_str()) == 0)
      return InvalidArgument("local.learner.interface: no network interface " + interface);
  }
  answer.model = ModelDigest(config.run.model.path);
  if (const auto mark = ReadFile(FolderMarkPath(local.out), kMaxMarkBytes); mark.ok())
    answer.folder = mark->substr(0, mark->find('\n'));
  BUTTRESS_RETURN_IF_ERROR(CheckSizes(needs, config, answer));
  if (needs.workers > 0) {
    BUTTRESS_ASSIGN_OR_RETURN(const auto ports,
                              ReservePorts(LaunchedServers(local.worker.vllm.launch)));
    answer.ports = PortsOf(ports);
  }
  LocalSettings own = local;
  own.launch.workers = needs.workers;
  if (needs.workers == 0 || !WorkersNeedGpus(own)) return answer;
  BUTTRESS_ASSIGN_OR_RETURN(answer.gpus, CountCudaDevices());  // CheckSizes has seen some
  return answer;
}

std::string ProgramVersion() { return BUTTRESS_VERSION; }

std::function<Status()> AddOnHost(CLI::App& app) {
  const auto options = std::make_shared<OnHostOptions>();
  app.add_option("--ssh", options->session.ssh, "command that reaches the machine");
  app.add_option("--host", options->session.host, "machine, as ssh takes it");
  app.add_option("--config", options->session.config, "configuration to send");
  app.add_flag("--once", options->once, "give up at the first connection that fails");
  app.add_option("--stop-timeout-ms", options->far.stop_ms, "time for a clean stop");
  app.add_flag("--agent", options->agent, "be the end on the other machine");
  app.add_flag("--here", options->here, "the agent checks the launching machine itself");
  app.add_option("--cwd", options->cwd, "working folder of the agent");
  app.add_option("--out", options->far.out, "folder of the run");
  app.add_option("--role", options->far.role, "name of the program in the run");
  app.add_flag("--check", options->check, "check this machine instead of running a program");
  app.add_option("--version", options->needs.version, "check: version of the programs");
  app.add_option("--workers", options->needs.workers, "check: rollout workers");
  app.add_option("--ranks", options->needs.ranks, "check: learner ranks");
  app.add_option("program", options->argv, "program and its arguments, after --");
  return [options] { return RunOnHost(*options); };
}

}  // namespace buttress
