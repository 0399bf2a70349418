#include "cli/vllm/own_server.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "cli/process.h"
#include "cli/vllm/vllm_server.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/shutdown.h"
#include "lib/http/http_client.h"
#include "lib/policy/model_config.h"

namespace buttress {
namespace {

constexpr int kRefusedStatus = 2;  // of a server that was given wrong arguments
constexpr std::int64_t kReadyMs = 1800000;
constexpr std::int64_t kAskMs = 500;
constexpr std::int64_t kTellMs = 30000;

// Waits until the server answers at its port.
Status WaitForServer(Process& server, int port, const std::string& log,
                     const std::string& command) {
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
    fmt::print(stderr, "{}: vLLM is starting, {} s so far; its output is in {}\n", command,
               (now_ms - begin_ms) / 1000, log);
  }
}

}  // namespace

void OwnServerFlags::AddTo(CLI::App& app) {
  app.add_option("--vllm", binary);
  app.add_option("--vllm-gpus", gpus);
  app.add_option("--vllm-arg", args)->allow_extra_args(false);
}

Status OwnServerFlags::Check(const std::vector<std::string>& rest,
                             const std::vector<std::string>& refused) const {
  if (!on()) {
    if (gpus.empty() && args.empty()) return OkStatus();
    return InvalidArgument("--vllm-gpus and --vllm-arg are of --vllm, which starts a server");
  }
  for (const std::string& argument : rest) {
    if (IsFlag(argument, "--server"))
      return InvalidArgument("--server is of a server that runs, --vllm starts one; leave one out");
    for (const std::string& flag : refused) {
      if (IsFlag(argument, flag))
        return InvalidArgument(flag + " does not go with --vllm; leave one out");
    }
  }
  return OkStatus();
}

bool IsFlag(const std::string& argument, const std::string& flag) {
  return argument == flag || argument.starts_with(flag + "=");
}

Result<std::vector<std::string>> StartOwnServer(const OwnServerFlags& flags,
                                                const std::string& model, const std::string& dtype,
                                                const std::string& command) {
  BUTTRESS_RETURN_IF_ERROR(LoadModelConfig(model).status());
  BUTTRESS_ASSIGN_OR_RETURN(const ReservedPort port, ReservedPort::Take());
  std::vector<std::string> argv = {SiblingProgram("buttress"),
                                   "vllm-server",
                                   "--model",
                                   model,
                                   "--binary",
                                   flags.binary,
                                   "--port",
                                   std::to_string(port.port())};
  if (!flags.gpus.empty()) argv.push_back("--gpus=" + flags.gpus);
  if (!dtype.empty()) argv.push_back("--dtype=" + dtype);
  for (const std::string& argument : flags.args) argv.push_back("--arg=" + argument);
  const std::string log = (std::filesystem::temp_directory_path() /
                           fmt::format("buttress-{}-{}-vllm.log", command, ::getpid()))
                              .string();
  InstallShutdownHandlers();
  // The kernel asks the server to end when this process does.
  BUTTRESS_ASSIGN_OR_RETURN(Process server, Process::Start(argv, log));
  const Status ready = WaitForServer(server, port.port(), log, command);
  if (!ready.ok()) {
    server.Signal(SIGTERM);
    WaitUntil(kTellMs, [&server] { return !server.Running(); });
    return ready;
  }
  fmt::print(stderr, "{}: vLLM answers on port {}; its output is in {}\n", command, port.port(),
             log);
  return std::vector<std::string>{"--server", fmt::format("http://127.0.0.1:{}", port.port()),
                                  "--vllm-log", log};
}

}  // namespace buttress
