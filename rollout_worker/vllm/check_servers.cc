#include "rollout_worker/vllm/check_servers.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/config/token_bounds.h"
#include "rollout_worker/vllm/control.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {
namespace {

constexpr const char* kCheck = "local.worker.vllm.servers";
constexpr std::int64_t kProbeMs = 20000;  // for each call; several make a probe

void CheckLength(const ServerInfo& server, const RunSettings& run, Findings& findings) {
  const std::int64_t completion = MostBehindPrompt(run);
  const std::int64_t whole = run.data.max_prompt_tokens + completion;
  if (server.max_model_len <= completion) {
    findings.Error(run.env.on() ? "run.env.max_tokens" : "run.sampling.max_tokens",
                   fmt::format("{} tokens leave no place for a prompt in the max_model_len of {}, "
                               "{}; lower it, or start the server with --max-model-len {}",
                               completion, server.url, server.max_model_len, whole));
  } else if (server.max_model_len < whole) {
    findings.Warn(
        "run.data.max_prompt_tokens",
        fmt::format("a prompt of {} and a completion of {} tokens are more than the max_model_len "
                    "of {}, {}; start the server with --max-model-len {}, or lower it",
                    run.data.max_prompt_tokens, completion, server.url, server.max_model_len,
                    whole));
  }
}

// Of an address that nobody answers at.
std::string MendOf(const Status& status) {
  if (!WorthRetrying(status)) return "";
  return "; start it first, or let the run start servers: local.worker.vllm.launch.binary";
}

}  // namespace

void CheckVllmServers(const RunConfig& config, Findings& findings) {
  VllmConfig vllm = config.local.worker.vllm;
  vllm.control_ms = std::min(vllm.control_ms, kProbeMs);
  vllm.idle_ms = std::min(vllm.idle_ms, kProbeMs);
  const Result<std::string> key = ReadApiKey(vllm.api_key_file);
  if (!key.ok()) return findings.Error("local.worker.vllm.api_key_file", key.status().message());
  VllmControl control(vllm, *key);
  for (const std::string& url : vllm.servers) {
    const Result<ServerInfo> server = control.Probe(url);
    if (!server.ok()) {
      findings.Error(kCheck, server.status().message() + MendOf(server.status()));
      continue;
    }
    findings.Ok(kCheck, fmt::format("{} is vLLM {}, takes weights and returns log-probs as a run "
                                    "needs them; it runs {} completions at once",
                                    url, server->version, server->concurrency));
    CheckLength(*server, config.run, findings);
  }
}

}  // namespace buttress
