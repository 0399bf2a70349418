// A vLLM server that a command starts for itself alone (`buttress eval --vllm`, `buttress probe
// --vllm`). It ends with this process, also after that has become another program.
#pragma once

#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace CLI {
class App;
}

namespace buttress {

// --vllm, --vllm-gpus and --vllm-arg. Their help is that of the program that this process becomes.
struct OwnServerFlags {
  std::string binary;  // empty: no server
  std::string gpus;
  std::vector<std::string> args;

  void AddTo(CLI::App& app);

  bool on() const { return !binary.empty(); }

  // kInvalidArgument for flags of a server that is not started, and for arguments of `rest`, those
  // of the command that are not declared here, which such a server does not serve: --server and
  // `refused`.
  Status Check(const std::vector<std::string>& rest, const std::vector<std::string>& refused) const;
};

// Whether an argument is this flag, with or without "=VALUE".
bool IsFlag(const std::string& argument, const std::string& flag);

// Starts `vllm serve` for the model folder, on the CPU or the GPUs of the flags, and waits until it
// answers. Returns the arguments that name it to `rollout_worker`: its address and the file with
// its output. Messages begin with `command`. kInvalidArgument for arguments that vLLM refuses,
// errors of LoadModelConfig, kUnavailable if the server ends, kDeadlineExceeded, kCancelled.
Result<std::vector<std::string>> StartOwnServer(const OwnServerFlags& flags,
                                                const std::string& model, const std::string& dtype,
                                                const std::string& command);

}  // namespace buttress
