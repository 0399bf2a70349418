// The flags of a server that samples, which the commands `eval` and `probe` have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "rollout_worker/evaluation/openai_sampler.h"

namespace buttress {

struct ServerFlags {
  OpenAiOptions server;  // without its key
  std::string api_key_file;
  // Read by `buttress`, which starts the server that they describe, and adds its log.
  std::string vllm, vllm_gpus, vllm_log;
  std::vector<std::string> vllm_args;

  void AddTo(CLI::App& app);

  // The server, or one without a url. kInvalidArgument for flags of a server without one; errors of
  // ReadApiKey.
  Result<OpenAiOptions> Options() const;

  // Removes the log of a server that was started for a command, or says where it is, if `status` is
  // that of a failure. Returns `status`.
  Status Tidy(Status status, const std::string& command) const;
};

}  // namespace buttress
