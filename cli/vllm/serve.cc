// `buttress vllm-server`: a vLLM server of a run, and the end of all its processes.
//
// vLLM's engine runs in processes of its own, which survive a kill of the one that was started.
// This process is their parent in the end: it passes SIGTERM on, which the kernel sends when the
// process that started this one dies, and leaves no process behind.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/process.h"
#include "cli/vllm/vllm_server.h"
#include "lib/base/net/secret.h"
#include "lib/base/os/fd.h"
#include "lib/base/os/program_path.h"
#include "lib/base/os/shutdown.h"
#include "lib/checks/vllm_checks.h"
#include "lib/config/choice.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/policy/model_config.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kServeTick(100);
constexpr int kWrongArguments = 2;  // of argparse, in vLLM
constexpr std::int64_t kMaxKeyBytes = 4096;

struct ServeFlags {
  std::string path;
  std::vector<std::string> overrides;
  // Without a run file: one server of a model folder, for `buttress eval`.
  std::string model;
  std::string binary;
  std::string dtype = "float32";
  std::vector<std::int64_t> gpus;
  std::vector<std::string> args;
  ServerPlace place{.index = 0, .port = 8000};
  bool print = false;
  bool count = false;
  // Print the settings of one of the workers of a machine.
  std::int64_t worker = -1;
  std::int64_t workers = 1;
};

// The exit status as the supervisor of a run reads it: one that a restart cannot fix stays, and an
// end that nobody asked for is a failure.
int StatusToReport(int code) {
  if (ShutdownRequested()) return 0;
  return code > 128 || code == kWrongArguments ? code : ExitCode(Unavailable(""));
}

void SetEnvironment(const ServerCommand& command) {
  for (const std::string& entry : command.env) {
    const std::size_t equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), /*overwrite=*/1);
  }
  // As if the virtual environment were activated: vLLM finds compilers and ninja there.
  const std::string program = FindProgram(command.argv.front());
  const char* path = std::getenv("PATH");
  if (program.find('/') == std::string::npos || path == nullptr) return;
  const std::string folder = std::filesystem::path(program).parent_path().string();
  ::setenv("PATH", (folder + ":" + path).c_str(), /*overwrite=*/1);
}

// An old process of this server may have it for a moment longer, so a restart may mend it.
Status CheckPort(int port) {
  const OwnedFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return OkStatus();
  return Unavailable(fmt::format(
      "port {} of 127.0.0.1 is in use; name another one by --port, or end the program that listens "
      "there",
      port));
}

// Runs the server to its end, or until the file `restart` is there. Exits with its status.
Status RunServer(const ServerCommand& command, std::int64_t stop_ms, const std::string& restart) {
  std::error_code ignored;
  std::filesystem::remove(restart, ignored);
  InstallShutdownHandlers();
  SetChildSubreaper();
  const OwnedFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  BUTTRESS_ASSIGN_OR_RETURN(Process server,
                            Process::StartOn(command.argv, null.get(), STDOUT_FILENO));
  bool stuck = false;
  while (!stuck && server.Running() && !WaitForShutdown(kServeTick))
    stuck = std::filesystem::remove(restart, ignored);
  if (server.Running() && !stuck) {
    server.Signal(SIGTERM);
    WaitUntil(stop_ms, [&server] { return !server.Running(); });
  }
  const int code = server.Running() ? 128 + SIGKILL : server.exit_code();
  KillDescendants();
  if (stuck) fmt::print("a worker asked for the restart of this server\n");
  std::fflush(stdout);
  std::exit(StatusToReport(stuck ? 0 : code));
}

// The configuration of a server without a run: as long as the model's positions, which it serves
// under the name of its folder.
Result<RunConfig> WithoutRun(const ServeFlags& flags) {
  if (flags.model.empty() || flags.binary.empty())
    return InvalidArgument("name a run file, or --model and --binary");
  BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(flags.model));
  RunConfig config;
  config.run.model.path = flags.model;
  BUTTRESS_ASSIGN_OR_RETURN(config.run.model.dtype, FindChoice<ModelDtype>(flags.dtype));
  config.run.data.max_prompt_tokens = model.max_positions;
  VllmConfig& vllm = config.local.worker.vllm;
  vllm.model = flags.model;
  vllm.launch.binary = flags.binary;
  vllm.launch.gpus = flags.gpus;
  vllm.launch.tensor_parallel = std::max<std::int64_t>(1, std::ssize(flags.gpus));
  vllm.launch.args = flags.args;
  return config;
}

// Prints the settings that give a worker its servers, which listen on the ports from that of
// `flags` on; nothing where the run starts none.
Status PrintOfWorker(const VllmLaunchConfig& launch, const ServeFlags& flags) {
  std::vector<int> ports;
  for (std::int64_t i = 0; i < LaunchedServers(launch); ++i)
    ports.push_back(flags.place.port + static_cast<int>(i));
  if (ports.empty()) return OkStatus();
  if (flags.worker >= flags.workers || flags.workers > std::ssize(ports)) {
    return InvalidArgument(
        fmt::format("--worker {} --workers {}: workers are counted from 0, and {} servers can have "
                    "at most a worker each",
                    flags.worker, flags.workers, ports.size()));
  }
  fmt::print("{}\n{}\n", ServersSetting(ports, flags.worker, flags.workers),
             GpusSetting(launch, flags.worker, flags.workers));
  return OkStatus();
}

Status Serve(const ServeFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const RunConfig config,
      flags.path.empty() ? WithoutRun(flags) : LoadRunConfig(flags.path, flags.overrides));
  const VllmConfig& vllm = config.local.worker.vllm;
  const std::int64_t servers = LaunchedServers(vllm.launch);
  if (flags.count) {
    fmt::print("{}\n", servers);
    return OkStatus();
  }
  if (flags.worker >= 0) return PrintOfWorker(vllm.launch, flags);
  if (flags.place.index >= servers) {
    return InvalidArgument(
        servers == 0 ? "local.worker.vllm.launch.binary = '': name the program vllm"
                     : fmt::format("--index {}: local.worker.vllm.launch is of {} servers, which "
                                   "are counted from 0",
                                   flags.place.index, servers));
  }
  const Result<ModelConfig> model = LoadModelConfig(config.run.model.path);
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const ServerCommand command = MakeServerCommand(config, model.ok() ? model->max_positions : 0,
                                                  flags.place, visible == nullptr ? "" : visible);
  if (flags.print) {
    fmt::print("{}", ScriptOf(command, vllm.api_key_file));
    return OkStatus();
  }
  BUTTRESS_RETURN_IF_ERROR(CheckPort(flags.place.port));
  if (!vllm.api_key_file.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(std::string key, ReadSecretFile(vllm.api_key_file, kMaxKeyBytes));
    key.resize(key.find_last_not_of("\n\r ") + 1);
    ::setenv("VLLM_API_KEY", key.c_str(), /*overwrite=*/1);
  }
  SetEnvironment(command);
  return RunServer(command, config.local.launch.stop_timeout_ms,
                   VllmRestartPath(config.local.out, std::to_string(flags.place.port)));
}

}  // namespace

std::function<Status()> AddVllmServer(CLI::App& app) {
  const auto flags = std::make_shared<ServeFlags>();
  CLI::Option* const file = AddConfigFile(app, flags->path);
  app.add_option("--model", flags->model, "without a run: the folder that is served")
      ->excludes(file);
  app.add_option("--binary", flags->binary, "without a run: the program vllm")->excludes(file);
  app.add_option("--dtype", flags->dtype, "without a run: float32 | bfloat16")->excludes(file);
  app.add_option("--gpus", flags->gpus, "without a run: its GPUs, 0,1: one server of them all")
      ->delimiter(',')
      ->excludes(file);
  app.add_option("--arg", flags->args, "without a run: a further argument of vllm serve")
      ->allow_extra_args(false)
      ->excludes(file);
  app.add_option("--set", flags->overrides, "override a setting; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--index", flags->place.index,
                 "which server of local.worker.vllm.launch, counted from 0")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--port", flags->place.port, "port on 127.0.0.1")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  app.add_flag(
      "--print", flags->print,
      "print the command as a script for sh instead, for a machine without these programs");
  app.add_flag("--count", flags->count, "print how many servers a machine has, and start none");
  CLI::Option* const workers =
      app.add_option("--workers", flags->workers, "with --worker: the workers of this machine")
          ->check(CLI::PositiveNumber);
  app.add_option("--worker", flags->worker,
                 "print the settings that give a worker, counted from 0, its servers and their "
                 "GPUs, where the first server has --port and each next one the next port, and "
                 "start none")
      ->needs(workers)
      ->check(CLI::NonNegativeNumber);
  return [flags] { return Serve(*flags); };
}

}  // namespace buttress
