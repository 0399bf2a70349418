#include "rollout_worker/evaluation/server_flags.h"

#include <cstdio>
#include <filesystem>

#include "rollout_worker/vllm/control.h"

namespace buttress {

void ServerFlags::AddTo(CLI::App& app) {
  app.add_option("--server", server.url,
                 "http://host:8000 of an OpenAI-compatible server that samples instead")
      ->check([](const std::string& url) {
        return url.empty() ? "is empty; expected http://host:8000, or no --server for the model of "
                             "this machine"
                           : "";
      });
  app.add_option("--vllm", vllm,
                 "program vllm: `buttress` serves the model folder with it, and ends it");
  app.add_option("--vllm-gpus", vllm_gpus, "its GPUs, as 0,1; default: the CPU");
  app.add_option("--vllm-arg", vllm_args, "a further argument of vllm serve; may be repeated");
  app.add_option("--vllm-log", vllm_log)->group("");
  app.add_option("--api-key-file", api_key_file, "file with the API key of the server");
  app.add_option("--requests", server.requests, "requests to the server at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
}

Result<OpenAiOptions> ServerFlags::Options() const {
  if (!vllm.empty()) return InvalidArgument("--vllm is read by `buttress` alone");
  OpenAiOptions options = server;
  if (server.url.empty() && !api_key_file.empty())
    return InvalidArgument("--api-key-file is of a server; add --server");
  BUTTRESS_ASSIGN_OR_RETURN(options.api_key, ReadApiKey(api_key_file));
  return options;
}

Status ServerFlags::Tidy(Status status, const std::string& command) const {
  if (vllm_log.empty()) return status;
  std::error_code ignored;
  if (status.ok() || IsNothingToLearn(status)) {
    std::filesystem::remove(vllm_log, ignored);
  } else {
    std::fprintf(stderr, "%s: the output of vLLM is in %s\n", command.c_str(), vllm_log.c_str());
  }
  return status;
}

}  // namespace buttress
