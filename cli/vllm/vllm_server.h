// The vLLM servers that a run starts: their command line and environment, which worker has which,
// and `buttress vllm-server`, the process that one of them runs in. `buttress launch`, also over
// ssh, deploy/slurm and k8s/ start them by that command.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// A server of a machine.
struct ServerPlace {
  std::int64_t index = 0;  // below LaunchedServers (lib/checks/vllm_checks.h)
  int port = 0;            // on 127.0.0.1
};

struct ServerCommand {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=VALUE, to be set in this order
};

// Returns what starts `vllm serve` as a run needs it; local.worker.vllm.launch.args and env come
// last, so that they win. `positions` are those of the model, 0 if they are not known.
// `visible_gpus` is CUDA_VISIBLE_DEVICES of this process, whose GPUs the settings count; empty if
// it is not set. The API key, a secret, is not among them. REQUIRES: place.index is that of a
// server.
ServerCommand MakeServerCommand(const RunConfig& config, std::int64_t positions,
                                const ServerPlace& place, const std::string& visible_gpus);

// The command as a script for sh, which becomes the server.
std::string ScriptOf(const ServerCommand& command, const std::string& api_key_file);

// The program of a server of this machine, without the configuration.
std::vector<std::string> ServerProgram(std::int64_t index, int port);

// The setting ("local.worker.vllm.servers=[...]") for one of the `workers` of a machine,
// 0 <= `worker` < `workers` <= ports.size(): an equal part of the servers on these ports, in order.
std::string ServersSetting(const std::vector<int>& ports, std::int64_t worker,
                           std::int64_t workers);

// The setting ("local.worker.vllm.launch.gpus=[...]") of the GPUs of these servers.
std::string GpusSetting(const VllmLaunchConfig& launch, std::int64_t worker, std::int64_t workers);

// A port of 127.0.0.1 that is kept from programs that look for a free one, for as long as this
// object lives. The program that it is meant for can listen on it, again and again, if it sets
// SO_REUSEADDR or SO_REUSEPORT, as vLLM does.
class ReservedPort {
 public:
  static Result<ReservedPort> Take();

  int port() const { return port_; }

 private:
  ReservedPort(OwnedFd fd, int port) : fd_(std::move(fd)), port_(port) {}

  OwnedFd fd_;
  int port_;
};

// Takes `count` ports.
Result<std::vector<ReservedPort>> ReservePorts(std::int64_t count);

std::vector<int> PortsOf(const std::vector<ReservedPort>& reserved);

}  // namespace buttress
