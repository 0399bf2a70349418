// What is asked of vLLM servers beside completions: what they are, new weights, and canary
// completions that prove what they serve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/http/http_client.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/vllm/canary_proof.h"

namespace buttress {

struct ServerInfo {
  std::string url;
  std::string version;  // of vLLM
  std::string model;    // name that it serves
  std::int64_t max_model_len = 0;
  std::int64_t concurrency = 0;  // completions that it takes at once
  bool float32 = false;          // what it computes in
};

// Blocking calls to one or several servers beside one another. Not thread-safe.
class VllmControl {
 public:
  VllmControl(VllmConfig config, std::string api_key)
      : config_(std::move(config)), api_key_(std::move(api_key)) {}

  // /health, /version, /v1/models, /openapi.json, /server_info, and a completion that shows what
  // its log-probs mean. kFailedPrecondition names the flags that the server lacks.
  Result<ServerInfo> Probe(const std::string& url);

  // Pauses, loads the safetensors of `folder` (a path on the servers' machines), empties the prefix
  // cache, resumes; one status a server. `paused` is called between pause and load: from then on no
  // token comes from the old weights. kDrain lets completions end first.
  std::vector<Status> PushWeights(const std::vector<std::string>& urls, const std::string& folder,
                                  InFlight in_flight, const std::function<void()>& paused);

  // What each server completes the prompts of `canaries` with, as many tokens as those have. `salt`
  // keeps other weights' cache out.
  std::vector<Result<Canaries>> MeasureCanaries(const std::vector<ServerInfo>& servers,
                                                const Canaries& canaries, const std::string& salt);

  // Ends calls under way and to come with kCancelled. Thread-safe.
  void Stop() { http_.Stop(); }

 private:
  HttpRequest Request(const std::string& url, const std::string& path) const;
  Result<std::string> Get(const std::string& url, const std::string& path);
  Status CheckRoutes(const std::string& url);
  Status ReadModels(ServerInfo& info);
  Status ReadServerInfo(ServerInfo& info);
  Status CheckProcessedLogprobs(const ServerInfo& info);

  const VllmConfig config_;
  const std::string api_key_;
  HttpClient http_;
};

}  // namespace buttress
