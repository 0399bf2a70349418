// Periodic health checks of the servers, on the thread of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/run_config.h"
#include "lib/http/http_client.h"
#include "rollout_worker/vllm/server_pool.h"

namespace buttress {

// Returns the request GET /health, which has health_timeout_ms in total.
HttpRequest HealthRequest(const VllmConfig& config, const std::string& url);

// Returns OK if the server answered 200 in time, and kUnavailable otherwise.
Status HealthOf(const Result<HttpReply>& reply, const std::string& url);

// Reports the results to the pool. A check starts health_interval_ms after the end of the one
// before. Not thread-safe. The arguments must outlive the poller, and http.Step must not be called
// after its destruction.
class HealthPoller {
 public:
  HealthPoller(const VllmConfig& config, ServerPool& pool, HttpClient& http);

  // Starts the checks that are due.
  void Begin();

  // Returns the milliseconds until a check is due. Checks in progress only need http.Step.
  std::int64_t WaitMs() const;

 private:
  static constexpr std::int64_t kInProgress = -1;

  void End(std::size_t server, const Result<HttpReply>& reply);

  const VllmConfig& config_;
  ServerPool& pool_;
  HttpClient& http_;
  std::vector<std::int64_t> due_ms_;  // by server
};

}  // namespace buttress
