#include "cli/vllm/vllm_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "cli/process.h"
#include "lib/base/text/random.h"
#include "lib/checks/vllm_checks.h"
#include "lib/config/choice.h"

namespace buttress {
namespace {

// The canaries of a version, by which a server proves its weights, are shorter.
constexpr std::int64_t kLeastLength = 64;

// The GPUs of the server in the words of CUDA_VISIBLE_DEVICES.
std::string DevicesOf(const VllmLaunchConfig& launch, std::int64_t index,
                      const std::string& visible_gpus) {
  std::vector<std::string> visible;
  std::istringstream words(visible_gpus);
  for (std::string word; std::getline(words, word, ',');) visible.push_back(word);
  std::string devices;
  for (std::int64_t i = 0; i < launch.tensor_parallel; ++i) {
    const auto gpu = static_cast<std::size_t>(
        launch.gpus[static_cast<std::size_t>(index * launch.tensor_parallel + i)]);
    devices += (i == 0 ? "" : ",") + (gpu < visible.size() ? visible[gpu] : std::to_string(gpu));
  }
  return devices;
}

std::vector<std::string> Environment(const RunConfig& config, std::int64_t index,
                                     const std::string& visible_gpus) {
  const VllmLaunchConfig& launch = config.local.worker.vllm.launch;
  // The routes that pause the server and load weights; models are folders, none is downloaded.
  std::vector<std::string> env = {"VLLM_SERVER_DEV_MODE=1", "VLLM_NO_USAGE_STATS=1",
                                  "HF_HUB_OFFLINE=1"};
  if (config.run.lora.on()) env.push_back("VLLM_ALLOW_RUNTIME_LORA_UPDATING=1");
  // The handles of the worker's memory are pickles. The server listens on 127.0.0.1.
  if (config.local.worker.vllm.weights == VllmWeights::kIpc)
    env.push_back("VLLM_ALLOW_INSECURE_SERIALIZATION=1");
  if (!launch.gpus.empty())
    env.push_back("CUDA_VISIBLE_DEVICES=" + DevicesOf(launch, index, visible_gpus));
  env.insert(env.end(), launch.env.begin(), launch.env.end());
  return env;
}

// Servers with the same seed could complete a prompt alike. Those of a machine have ports of their
// own.
std::uint64_t SeedOf(const RunSettings& run, const ServerPlace& place) {
  return MixSeed(run.seed, static_cast<std::uint64_t>(place.port)) >> 33;
}

}  // namespace

ServerCommand MakeServerCommand(const RunConfig& config, std::int64_t positions,
                                const ServerPlace& place, const std::string& visible_gpus) {
  const RunSettings& run = config.run;
  const VllmConfig& vllm = config.local.worker.vllm;
  const std::int64_t longest =
      std::max(kLeastLength, run.data.max_prompt_tokens + run.sampling.max_tokens);
  const std::int64_t length = positions > 0 ? std::min(longest, positions) : longest;
  ServerCommand command;
  command.argv = {vllm.launch.binary,
                  "serve",
                  run.model.path,
                  "--served-model-name",
                  vllm.model.empty() ? "policy" : vllm.model,
                  "--host",
                  "127.0.0.1",
                  "--port",
                  std::to_string(place.port),
                  "--generation-config",
                  "vllm",
                  "--logprobs-mode",
                  "processed_logprobs",
                  "--api-server-count",
                  "1",
                  "--dtype",
                  std::string(ChoiceName(run.model.dtype)),
                  "--max-model-len",
                  std::to_string(length),
                  "--stream-interval",
                  std::to_string(vllm.stream_interval),
                  "--seed",
                  std::to_string(SeedOf(run, place))};
  std::vector<std::string>& argv = command.argv;
  if (vllm.launch.gpus.empty()) argv.emplace_back("--enforce-eager");
  if (vllm.launch.colocate) argv.emplace_back("--enable-sleep-mode");
  if (vllm.launch.tensor_parallel > 1) {
    argv.insert(argv.end(),
                {"--tensor-parallel-size", std::to_string(vllm.launch.tensor_parallel)});
  }
  if (run.lora.on()) {
    argv.insert(argv.end(),
                {"--enable-lora", "--max-lora-rank", std::to_string(VllmLoraRank(run.lora.rank))});
  }
  if (vllm.weights == VllmWeights::kNccl || vllm.weights == VllmWeights::kIpc) {
    argv.insert(argv.end(), {"--weight-transfer-config",
                             fmt::format(R"({{"backend":"{}"}})", ChoiceName(vllm.weights))});
  }
  argv.insert(argv.end(), vllm.launch.args.begin(), vllm.launch.args.end());
  command.env = Environment(config, place.index, visible_gpus);
  return command;
}

std::string ScriptOf(const ServerCommand& command, const std::string& api_key_file) {
  std::string script = "#!/bin/sh\n";
  for (const std::string& entry : command.env) {
    const std::size_t equals = entry.find('=');
    script +=
        fmt::format("export {}={}\n", entry.substr(0, equals), ShellWord(entry.substr(equals + 1)));
  }
  if (!api_key_file.empty()) {
    script += fmt::format("VLLM_API_KEY=$(cat {}) || exit 2\nexport VLLM_API_KEY\n",
                          ShellWord(api_key_file));
  }
  script += "exec";
  for (const std::string& word : command.argv) script += " " + ShellWord(word);
  return script + "\n";
}

std::vector<std::string> ServerProgram(std::int64_t index, int port) {
  return {SiblingProgram("buttress"), "vllm-server", "--index",
          std::to_string(index),      "--port",      std::to_string(port)};
}

std::string ServersSetting(const std::vector<int>& ports, std::int64_t worker,
                           std::int64_t workers) {
  const auto count = static_cast<std::int64_t>(ports.size());
  std::vector<std::string> urls;
  for (std::int64_t i = worker * count / workers; i < (worker + 1) * count / workers; ++i)
    urls.push_back(fmt::format("http://127.0.0.1:{}", ports[static_cast<std::size_t>(i)]));
  return fmt::format("local.worker.vllm.servers=[{}]", fmt::join(urls, ", "));
}

std::string GpusSetting(const VllmLaunchConfig& launch, std::int64_t worker, std::int64_t workers) {
  const std::int64_t count = LaunchedServers(launch), size = launch.tensor_parallel;
  const auto place = [&](std::int64_t w) {
    return launch.gpus.begin() + (launch.gpus.empty() ? 0 : w * count / workers * size);
  };
  return fmt::format("local.worker.vllm.launch.gpus=[{}]",
                     fmt::join(place(worker), place(worker + 1), ", "));
}

Result<ReservedPort> ReservedPort::Take() {
  OwnedFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const as_any = reinterpret_cast<sockaddr*>(&address);
  if (fd.get() < 0 || ::bind(fd.get(), as_any, size) != 0 ||
      ::getsockname(fd.get(), as_any, &size) != 0) {
    return Unavailable(std::string("no port of 127.0.0.1 is free for a vLLM server: ") +
                       std::strerror(errno));
  }
  return ReservedPort(std::move(fd), ntohs(address.sin_port));
}

Result<std::vector<ReservedPort>> ReservePorts(std::int64_t count) {
  std::vector<ReservedPort> reserved;
  for (std::int64_t i = 0; i < count; ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(ReservedPort port, ReservedPort::Take());
    reserved.push_back(std::move(port));
  }
  return reserved;
}

std::vector<int> PortsOf(const std::vector<ReservedPort>& reserved) {
  std::vector<int> ports;
  for (const ReservedPort& one : reserved) ports.push_back(one.port());
  return ports;
}

}  // namespace buttress
