#include "cli/fleet/fleet.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "cli/fleet/ssh_session.h"
#include "cli/process.h"
#include "cli/train/supervisor.h"
#include "cli/vllm/vllm_server.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/collectives/gpu_choice.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCheckMs = 60000;
constexpr std::int64_t kMaxSkewMs = 2000;

// Returns a port of `address` that is free now. kInvalidArgument if the address is not of this
// machine.
Result<int> FreePort(const std::string& address) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address.c_str(), "0", &hints, &found); error != 0)
    return InvalidArgument(fmt::format("{}: {}; set address=", address, ::gai_strerror(error)));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  auto* const as_any = reinterpret_cast<sockaddr*>(&bound);
  const bool here = fd >= 0 && ::bind(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                    ::getsockname(fd, as_any, &size) == 0;
  ::freeaddrinfo(found);
  if (fd >= 0) ::close(fd);
  char port[NI_MAXSERV] = {};
  if (!here || ::getnameinfo(as_any, size, nullptr, 0, port, sizeof port, NI_NUMERICSERV) != 0) {
    return InvalidArgument(
        address +
        " has the field coordinator, and is no address of this machine; run launch on "
        "the coordinator's machine, or set its address=");
  }
  return std::atoi(port);
}

bool OnLoopback(const std::string& listen) {
  return listen.starts_with("127.") || listen.starts_with("localhost:");
}

// `listen` with a host that other machines reach.
std::string Reachable(const std::string& listen, const std::string& address) {
  return OnLoopback(listen) ? address + listen.substr(listen.rfind(':')) : listen;
}

// `skew_ms` is how far a clock is off at least, `within_ms` by how much more it may be.
void JudgeClock(const std::string& host, std::int64_t skew_ms, std::int64_t within_ms,
                Findings& findings) {
  const double seconds = std::abs(static_cast<double>(skew_ms)) / 1000;
  if (std::abs(skew_ms) > kMaxSkewMs) {
    findings.Warn(host, fmt::format("its clock is {:.1f} s {} this machine's; set it by NTP "
                                    "(chrony), because certificates and logs go by it",
                                    seconds, skew_ms > 0 ? "ahead of" : "behind"));
  } else {
    findings.Ok(host, fmt::format("its clock is within {:.1f} s of this machine's",
                                  seconds + static_cast<double>(within_ms) / 1000));
  }
}

std::string LogOf(const RunConfig& config, const Host& host) {
  return JoinPath(config.local.out, "logs/host-" + host.name + ".log");
}

}  // namespace

Result<Fleet> Fleet::Load(const std::string& hosts_file, const std::string& ssh) {
  const auto text = ReadFile(hosts_file, 1 << 20);
  if (!text.ok()) return InvalidArgument("--hosts: " + text.status().message());
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<Host> hosts, ParseHosts(*text, hosts_file));
  Fleet fleet;
  fleet.ssh_ = ssh;
  for (const Host& host : hosts) {
    fleet.machines_.insert(host.coordinator ? fleet.machines_.begin() : fleet.machines_.end(),
                           Machine{host});
  }
  auto port = FreePort(fleet.machines_.front().host.address);
  if (!port.ok()) return InvalidArgument(hosts_file + ": " + port.status().message());
  fleet.port_ = *port;
  return fleet;
}

std::vector<std::string> Fleet::Overrides(const LocalSettings& local) const {
  std::int64_t workers = 0, ranks = 0;
  for (const Machine& machine : machines_) {
    workers += machine.host.workers;
    ranks += machine.host.ranks;
  }
  const std::string& address = machines_.front().host.address;
  std::string listen = Reachable(local.coordinator.listen, address);
  // The others get the port before the coordinator has bound it.
  if (listen.ends_with(":0")) listen = listen.substr(0, listen.size() - 1) + std::to_string(port_);
  const std::string advertise = local.coordinator.advertise.empty()
                                    ? address + listen.substr(listen.rfind(':'))
                                    : local.coordinator.advertise;
  return {"local.launch.workers=" + std::to_string(workers),
          "local.launch.learner_ranks=" + std::to_string(ranks),
          "local.coordinator.listen=" + listen, "local.coordinator.advertise=" + advertise,
          "local.learner.listen=" + Reachable(local.learner.listen, address)};
}

std::vector<std::string> Fleet::FarCommand(const RunConfig& config, const Machine& machine,
                                           const std::vector<std::string>& agent) const {
  const std::string program = SiblingProgram("buttress");
  const std::string stop = std::to_string(config.local.launch.stop_timeout_ms);
  std::vector<std::string> argv = {program,
                                   "on-host",
                                   "--ssh",
                                   ssh_,
                                   "--host",
                                   machine.host.name,
                                   "--config",
                                   SentConfigPath(config.local.out),
                                   "--stop-timeout-ms",
                                   stop};
  if (agent.front() == "--check") argv.push_back("--once");
  argv.insert(argv.end(),
              {"--", program, "on-host", "--agent", "--cwd", fs::current_path().string(), "--out",
               config.local.out, "--stop-timeout-ms", stop});
  argv.insert(argv.end(), agent.begin(), agent.end());
  return argv;
}

ProcessCounts Fleet::Here() const {
  ProcessCounts here{machines_.front().host.workers, machines_.front().host.ranks};
  for (const Machine& machine : machines_) here.job_ranks += machine.host.ranks;
  return here;
}

Status Fleet::Judge(const RunConfig& config, Machine& machine, const Asked& asked,
                    const std::string& log, const HostAnswer& here, Findings& findings) const {
  const int code = asked.process.exit_code();
  const auto text = ReadFile(log);
  if (code == 127)
    return InvalidArgument(SiblingProgram("buttress") +
                           " is not there; install the same programs "
                           "at the same path");
  if (code != 0) {
    const std::string why = LastErrorInLog(log);
    return code == ExitCode(InvalidArgument("")) ? InvalidArgument(why) : Unavailable(why);
  }
  const HostAnswer answer = HostAnswer::FromText(text.ok() ? *text : "");
  LocalSettings local = config.local;
  local.launch.workers = machine.host.workers;
  local.launch.learner_ranks = machine.host.ranks;
  BUTTRESS_ASSIGN_OR_RETURN(machine.gpus, AssignWorkerGpus(local, answer.gpus));
  machine.ports = answer.ports;
  for (const std::string& warning : answer.warnings) findings.Warn(machine.host.name, warning);
  if (machine.host.coordinator) return OkStatus();
  if (answer.model != here.model) {
    return InvalidArgument(
        "run.model.path: config.json, tokenizer.json or the weights differ from those of this "
        "machine; copy the folder again");
  }
  JudgeClock(machine.host.name, ClockSkew(answer.clock_ms, asked.before_ms, asked.after_ms),
             asked.after_ms - asked.before_ms, findings);
  findings.Ok(machine.host.name, answer.folder == here.folder
                                     ? "its run folder is that of this machine"
                                     : "it has a run folder of its own");
  return OkStatus();
}

Result<std::vector<Fleet::Asked>> Fleet::Ask(const RunConfig& config) const {
  std::vector<Asked> checks;
  for (const Machine& machine : machines_) {
    const std::string log = LogOf(config, machine.host);
    std::error_code ignored;
    fs::remove(log, ignored);
    // The coordinator's machine is this one: no ssh is needed.
    std::vector<std::string> argv = FarCommand(
        config, machine,
        {"--check", "--version", ProgramVersion(), "--workers",
         std::to_string(machine.host.workers), "--ranks", std::to_string(machine.host.ranks)});
    if (machine.host.coordinator) {
      argv.erase(argv.begin() + 1, std::ranges::find(argv, std::string("--")) + 2);
      argv.insert(argv.begin() + 2, "--here");
    }
    const std::int64_t now_ms = RealClock().UnixMs();
    BUTTRESS_ASSIGN_OR_RETURN(const Process process, Process::Start(argv, log));
    checks.push_back({process, now_ms, 0});
  }
  WaitUntil(kCheckMs, [&checks] {
    bool any = false;
    for (Asked& asked : checks) {
      if (asked.after_ms != 0) continue;
      const bool runs = asked.process.Running();
      any = any || runs;
      if (!runs) asked.after_ms = RealClock().UnixMs();
    }
    return ShutdownRequested() || !any;
  });
  return checks;
}

Status Fleet::Check(const RunConfig& config, Findings& findings) {
  BUTTRESS_RETURN_IF_ERROR(
      WriteFileAtomic(SentConfigPath(config.local.out), PrintRunConfig(config)));
  const std::string mark = fmt::format("{} {}", ::getpid(), RealClock().UnixMs());
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(FolderMarkPath(config.local.out), mark + "\n"));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<Asked> checks, Ask(config));
  const auto own = ReadFile(LogOf(config, machines_.front().host));
  const HostAnswer here = HostAnswer::FromText(own.ok() ? *own : "");
  std::string errors;
  bool can_mend = false;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const std::string log = LogOf(config, machines_[i].host);
    Status status = Unavailable(fmt::format("no answer within {} s; see {}", kCheckMs / 1000, log));
    if (checks[i].process.Running()) {
      checks[i].process.Signal(SIGTERM);
    } else {
      status = Judge(config, machines_[i], checks[i], log, here, findings);
    }
    if (status.ok()) continue;
    can_mend = can_mend || status.code() != StatusCode::kInvalidArgument;
    errors += "\n" + machines_[i].host.name + ": " + status.message();
  }
  if (ShutdownRequested()) return Cancelled("interrupted");
  if (errors.empty()) return OkStatus();
  errors = "nothing was started:" + errors;
  return can_mend ? Unavailable(errors) : InvalidArgument(errors);
}

std::vector<std::string> Fleet::WorkerCommand(const RunConfig& config, std::int64_t worker) const {
  std::int64_t place = worker;
  auto machine = machines_.begin();
  while (place >= machine->host.workers) place -= (machine++)->host.workers;
  const std::string id = "w" + std::to_string(worker);
  std::vector<std::string> argv = {
      SiblingProgram("rollout_worker"),
      "--config",
      SentConfigPath(config.local.out),
      "--set",
      "local.worker.id=" + id,
      "--set",
      "local.worker.listen=" + Reachable(config.local.worker.listen, machine->host.address)};
  if (!machine->gpus.empty()) {
    argv.insert(argv.end(), {"--set", fmt::format("local.worker.gpu={}",
                                                  machine->gpus[static_cast<std::size_t>(place)])});
  }
  if (!machine->ports.empty()) {
    const std::int64_t workers = machine->host.workers;
    argv.insert(argv.end(), {"--set", ServersSetting(machine->ports, place, workers), "--set",
                             GpusSetting(config.local.worker.vllm.launch, place, workers)});
  }
  if (machine->host.coordinator) return argv;
  // Another machine does not see the folder into which the learner publishes.
  argv.insert(argv.end(), {"--set", "local.worker.weights=grpc"});
  argv.insert(argv.begin(), {"--role", "worker-" + id, "--"});
  return FarCommand(config, *machine, argv);
}

std::vector<std::vector<std::string>> Fleet::ServerCommands(const RunConfig& config) const {
  std::vector<std::vector<std::string>> commands;
  for (const Machine& machine : machines_) {
    std::int64_t index = 0;
    for (const int port : machine.ports) {
      std::vector<std::string> argv = ServerProgram(index++, port);
      argv.insert(argv.end(), {"--config", SentConfigPath(config.local.out)});
      if (!machine.host.coordinator) {
        argv.insert(argv.begin(), {"--role", fmt::format("vllm-{}", commands.size()), "--"});
        argv = FarCommand(config, machine, argv);
      }
      commands.push_back(std::move(argv));
    }
  }
  return commands;
}

std::vector<std::string> Fleet::MpirunArguments() const {
  std::string list;
  std::int64_t elsewhere = 0;
  for (const Machine& machine : machines_) {
    if (machine.host.ranks == 0) continue;
    // mpirun knows this machine by this name, and by the own one only where that resolves.
    const std::string name = machine.host.coordinator ? "localhost" : machine.host.name;
    list += (list.empty() ? "" : ",") + fmt::format("{}:{}", name, machine.host.ranks);
    if (!machine.host.coordinator) elsewhere += machine.host.ranks;
  }
  if (elsewhere == 0) return {};
  return {"--host",
          list,
          "--map-by",
          "slot",
          "--mca",
          "plm_rsh_agent",
          fmt::format("{}", fmt::join(SshCommand(ssh_), " ")),
          "-wdir",
          fs::current_path().string()};
}

std::vector<std::string> MpirunCommand(const LocalSettings& local,
                                       const std::vector<std::string>& hosts) {
  const LaunchConfig& launch = local.launch;
  std::vector<std::string> argv = {launch.mpirun, "-np",  std::to_string(launch.learner_ranks),
                                   "--bind-to",   "none", "--oversubscribe"};
  if (::geteuid() == 0) argv.push_back("--allow-run-as-root");
  if (const std::string& interface = local.learner.interface; !interface.empty()) {
    argv.insert(argv.end(),
                {"--mca", "oob_tcp_if_include", interface, "--mca", "btl_tcp_if_include", interface,
                 "-x", "NCCL_SOCKET_IFNAME=" + interface});
  }
  // Without further arguments all ranks run on this machine and share memory. Open MPI would
  // listen for others on every interface all the same.
  if (local.learner.interface.empty() && launch.mpirun_args.empty() && hosts.empty())
    argv.insert(argv.end(), {"--mca", "btl", "^tcp"});
  argv.insert(argv.end(), hosts.begin(), hosts.end());
  argv.insert(argv.end(), launch.mpirun_args.begin(), launch.mpirun_args.end());
  return argv;
}

bool WorkersNeedGpus(const LocalSettings& local) {
  return local.worker.engine == EngineKind::kEmbedded &&
         local.worker.device == ComputeDevice::kCuda && local.worker.gpu == kAnyGpu;
}

Result<std::vector<int>> AssignWorkerGpus(const LocalSettings& local, int visible) {
  if (!WorkersNeedGpus(local)) return std::vector<int>();
  const std::int64_t workers = local.launch.workers;
  const bool learner_on_gpu = local.learner.device == ComputeDevice::kCuda;
  const std::int64_t ranks = learner_on_gpu ? local.launch.learner_ranks : 0;
  if (ranks + workers > visible) {
    return InvalidArgument(fmt::format(
        "local.launch: {} learner ranks and {} workers on GPUs need {}, but {} are visible; lower "
        "local.launch.learner_ranks or workers, or name the GPU that the workers share with "
        "local.worker.gpu",
        ranks, workers, ranks + workers, visible));
  }
  std::vector<int> gpus(static_cast<std::size_t>(workers));
  std::iota(gpus.begin(), gpus.end(), static_cast<int>(ranks));
  return gpus;
}

}  // namespace buttress
