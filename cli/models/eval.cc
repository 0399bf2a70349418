// `buttress eval`: this process becomes `rollout_worker eval`. With --vllm it starts a vLLM server
// before, for that evaluation alone.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/process.h"
#include "cli/vllm/vllm_server.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/fd.h"
#include "lib/base/os/shutdown.h"
#include "lib/config/choice.h"
#include "lib/config/load.h"
#include "lib/http/http_client.h"
#include "lib/policy/model_config.h"

namespace buttress {
namespace {

constexpr int kRefusedStatus = 2;  // of a server that was given wrong arguments
constexpr std::int64_t kReadyMs = 1800000;
constexpr std::int64_t kAskMs = 500;
constexpr std::int64_t kTellMs = 30000;

struct EvalFlags {
  std::string vllm;
  std::string gpus;
  std::vector<std::string> vllm_args;
  std::string model;
  std::string dtype;
  std::string config;
  std::vector<std::string> overrides;
};

bool Names(const std::string& argument, const std::string& flag) {
  return argument == flag || argument.starts_with(flag + "=");
}

Status CheckRest(const EvalFlags& flags, const std::vector<std::string>& rest) {
  if (flags.model.empty())
    return InvalidArgument("--vllm serves a model folder; name it with --model");
  for (const std::string& argument : rest) {
    if (Names(argument, "--server") || Names(argument, "--tokenizer"))
      return InvalidArgument("--server is of a server that runs, --vllm starts one; leave one out");
    if (Names(argument, "--adapter"))
      return InvalidArgument("--vllm serves whole models; make one with `buttress merge`");
  }
  return LoadModelConfig(flags.model).status();
}

// The dtype as `rollout_worker eval` decides it: --dtype, or that of the run file, which may be the
// first argument.
Result<std::string> DtypeOf(const EvalFlags& flags, const std::vector<std::string>& rest) {
  const bool first = !rest.empty() && !rest.front().starts_with('-');
  const std::string file = flags.config.empty() && first ? rest.front() : flags.config;
  if (!flags.dtype.empty() || file.empty()) return flags.dtype;
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(file, flags.overrides));
  return std::string(ChoiceName(config.run.model.dtype));
}

// Waits until the server answers at its port.
Status WaitForServer(Process& server, int port, const std::string& log) {
  HttpClient http;
  HttpRequest health;
  health.url = fmt::format("http://127.0.0.1:{}/health", port);
  health.deadlines = {.connect_ms = 1000, .first_byte_ms = 5000, .idle_ms = 5000};
  const std::int64_t begin_ms = RealClock().MonotonicMs();
  for (std::int64_t told_ms = begin_ms;;) {
    const Result<HttpReply> reply = std::move(http.Fetch({health})[0]);
    if (reply.ok() && reply->status == 200) return OkStatus();
    if (WaitForShutdown(std::chrono::milliseconds(kAskMs))) return Cancelled("interrupted");
    if (!server.Running()) {
      const std::string why =
          fmt::format("vLLM ended with status {} before it served; its output is in {}",
                      server.exit_code(), log);
      return server.exit_code() == kRefusedStatus ? InvalidArgument(why) : Unavailable(why);
    }
    const std::int64_t now_ms = RealClock().MonotonicMs();
    if (now_ms - begin_ms > kReadyMs)
      return DeadlineExceeded(
          fmt::format("vLLM did not answer within {} minutes; its output is "
                      "in {}",
                      kReadyMs / 60000, log));
    if (now_ms - told_ms < kTellMs) continue;
    told_ms = now_ms;
    fmt::print(stderr, "eval: vLLM is starting, {} s so far; its output is in {}\n",
               (now_ms - begin_ms) / 1000, log);
  }
}

struct StartedServer {
  std::string url;
  std::string log;
};

// Starts the server, whose end the kernel asks for when this process ends, whatever it has become.
Result<StartedServer> StartServer(const EvalFlags& flags, const std::string& dtype) {
  BUTTRESS_ASSIGN_OR_RETURN(const ReservedPort port, ReservedPort::Take());
  std::vector<std::string> argv = {SiblingProgram("buttress"),
                                   "vllm-server",
                                   "--model",
                                   flags.model,
                                   "--binary",
                                   flags.vllm,
                                   "--port",
                                   std::to_string(port.port())};
  if (!flags.gpus.empty()) argv.push_back("--gpus=" + flags.gpus);
  if (!dtype.empty()) argv.push_back("--dtype=" + dtype);
  for (const std::string& argument : flags.vllm_args) argv.push_back("--arg=" + argument);
  const std::string log = (std::filesystem::temp_directory_path() /
                           fmt::format("buttress-eval-{}-vllm.log", ::getpid()))
                              .string();
  InstallShutdownHandlers();
  BUTTRESS_ASSIGN_OR_RETURN(Process server, Process::Start(argv, log));
  const Status ready = WaitForServer(server, port.port(), log);
  if (!ready.ok()) {
    server.Signal(SIGTERM);
    WaitUntil(kTellMs, [&server] { return !server.Running(); });
    return ready;
  }
  fmt::print(stderr, "eval: vLLM answers on port {}; its output is in {}\n", port.port(), log);
  return StartedServer{fmt::format("http://127.0.0.1:{}", port.port()), log};
}

Status RunEval(const CLI::App& app, const EvalFlags& flags) {
  std::vector<std::string> rest = app.remaining();
  std::vector<std::string> argv = {SiblingProgram("rollout_worker"), "eval"};
  if (flags.vllm.empty()) {
    if (!flags.gpus.empty() || !flags.vllm_args.empty())
      return InvalidArgument("--vllm-gpus and --vllm-arg are of --vllm, which starts a server");
    if (!flags.model.empty()) argv.insert(argv.end(), {"--model", flags.model});
  } else {
    BUTTRESS_RETURN_IF_ERROR(CheckRest(flags, rest));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string dtype, DtypeOf(flags, rest));
    BUTTRESS_ASSIGN_OR_RETURN(const StartedServer server, StartServer(flags, dtype));
    argv.insert(argv.end(), {"--server", server.url, "--vllm-log", server.log, "--model",
                             flags.model, "--tokenizer", flags.model});
  }
  if (!flags.dtype.empty()) argv.insert(argv.end(), {"--dtype", flags.dtype});
  if (!flags.config.empty()) argv.insert(argv.end(), {"--config", flags.config});
  for (const std::string& setting : flags.overrides) argv.insert(argv.end(), {"--set", setting});
  argv.insert(argv.end(), rest.begin(), rest.end());
  const std::string why = ReplaceProcess(argv);
  return NotFound(fmt::format(
      "cannot run {}: {}; 'eval' needs the full program, which deploy/build.sh builds and the "
      "Python package lacks",
      argv[0], why));
}

}  // namespace

std::function<Status()> AddEval(CLI::App& app) {
  const auto flags = std::make_shared<EvalFlags>();
  app.set_help_flag();  // the other program answers --help, these options included
  app.allow_extras();
  app.add_option("--vllm", flags->vllm);
  app.add_option("--vllm-gpus", flags->gpus);
  app.add_option("--vllm-arg", flags->vllm_args)->allow_extra_args(false);
  app.add_option("--model", flags->model);
  app.add_option("--dtype", flags->dtype);
  app.add_option("--config", flags->config);
  app.add_option("--set", flags->overrides)->allow_extra_args(false);
  return [&app, flags] { return RunEval(app, *flags); };
}

}  // namespace buttress
