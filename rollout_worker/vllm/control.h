// The control calls to vLLM servers: their properties, weight updates, and canary completions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/http/http_client.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/vllm/canary_proof.h"
#include "rollout_worker/vllm/weight_transfer.h"

namespace buttress {

struct ServerInfo {
  std::string url;
  std::string version;  // of vLLM
  std::string model;    // the name under which it serves the model
  std::int64_t max_model_len = 0;
  std::int64_t concurrency = 0;  // completions in progress at the same time
  bool float32 = false;          // whether it computes in float32
  // Of its random numbers; absent if it does not say.
  std::optional<std::int64_t> seed;
  bool takes_stream_interval = false;  // in a request
  TransferFacts transfer;
  // When its process started, in ms since 1970: another value is another process, with the weights
  // that it was started with. 0 if it does not say.
  std::int64_t started_at_ms = 0;
  // With launch.colocate: whether it sleeps, or is paused, and has lost its weights for all that is
  // known.
  bool asleep = false;
};

// Returns the API key in a file, or "" for no file. kInvalidArgument if it is not one line of
// printable characters; the errors of ReadFile.
Result<std::string> ReadApiKey(const std::string& path);

// Weights for one server.
struct WeightPush {
  std::string folder;
  VllmWeights way = VllmWeights::kFile;  // of ChooseTransfer
  std::string version;
  // Holds the completions in progress with their keys and values instead of ending them.
  bool keep_running = false;
};

// Makes blocking calls. Not thread-safe.
class VllmControl {
 public:
  VllmControl(VllmConfig config, std::string api_key)
      : config_(std::move(config)), api_key_(std::move(api_key)), ways_(MakeWeightWays(config_)) {}

  // Reads the properties of a server from /health, /version, /v1/models, /openapi.json,
  // /server_info, /is_sleeping and /metrics, and checks by a completion which distribution its
  // log-probs describe, unless it sleeps. kFailedPrecondition names the flags that the server
  // lacks.
  Result<ServerInfo> Probe(const std::string& url);

  // Pauses the server, brings it the weights, clears the prefix cache and resumes. By the way of
  // the push, the server reads the safetensors of the folder, which must be visible to it (file),
  // or a folder of peft, which it then serves as kAdapterModel next to its weights (lora), or gets
  // the tensors from a GPU of this process (nccl, ipc). The pause ends the completions in progress,
  // or holds them. Calls `paused` between pause and load; after it no token comes from the old
  // weights. A server that keeps a tag of its weights must show the version in the end. One that
  // sleeps wakes up, and stays asleep in part if the weights do not arrive.
  Status PushWeights(const ServerInfo& server, const WeightPush& push,
                     const std::function<void()>& paused);

  // Lets the server give its GPU memory back: that of keys and values, and of the weights, which it
  // loses, or with `keeps_weights` moves to the memory of the machine. Ends its completions.
  Status Sleep(const std::string& url, bool keeps_weights);

  // Wakes a server that has kept its weights.
  Status WakeUp(const std::string& url);

  // Lets the server complete the prompts of `canaries` greedily, with the same numbers of tokens.
  // `salt` separates the prefix cache from that of other weights.
  Result<Canaries> MeasureCanaries(const ServerInfo& server, const Canaries& canaries,
                                   const std::string& salt);

  // Ends current and future calls with kCancelled. Thread-safe.
  void Stop() { http_.Stop(); }

 private:
  HttpRequest Request(const std::string& url, const std::string& path) const;
  Result<std::string> Get(const std::string& url, const std::string& path);
  Status ReadRoutes(ServerInfo& info);
  Status ReadModels(ServerInfo& info);
  Status ReadWorldSize(ServerInfo& info);
  Status ReadSleep(ServerInfo& info);
  Status ReadServerInfo(ServerInfo& info);
  Status CheckProcessedLogprobs(const ServerInfo& info);
  std::int64_t ReadStart(const std::string& url);
  Status Tag(const std::string& url, const std::string& version, VllmWeights way);
  Status Post(const std::string& url, const std::string& path, const std::string& json);

  const VllmConfig config_;
  const std::string api_key_;
  HttpClient http_;
  const std::map<VllmWeights, std::unique_ptr<WeightWay>> ways_;
};

}  // namespace buttress
