// Periodic health checks of every server, on the caller's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/run_config.h"
#include "lib/http/http_client.h"
#include "rollout_worker/vllm/server_pool.h"

namespace buttress {

// GET /health, whose deadline is health_timeout_ms in all.
HttpRequest HealthRequest(const VllmConfig& config, const std::string& url);

// OK for 200 in time; else kUnavailable.
Status HealthOf(const Result<HttpReply>& reply, const std::string& url);

struct HealthFailure {
  std::size_t server;
  Status why;
};

// Tells the pool what it finds. A check starts health_interval_ms after the one before has ended.
// Not thread-safe; the arguments outlive it, and no Step of `http` comes after its end.
class HealthPoller {
 public:
  HealthPoller(const VllmConfig& config, ServerPool& pool, HttpClient& http);

  // Starts the checks that are due.
  void Begin();

  // Checks that have failed since the last call.
  std::vector<HealthFailure> TakeFailed();

  // Until a check is due; those under way need Steps alone.
  std::int64_t WaitMs() const;

 private:
  static constexpr std::int64_t kUnderWay = -1;

  void End(std::size_t server, const Result<HttpReply>& reply);

  const VllmConfig& config_;
  ServerPool& pool_;
  HttpClient& http_;
  std::vector<std::int64_t> due_ms_;  // by server
  std::vector<HealthFailure> failed_;
};

}  // namespace buttress
