// The health of the servers: periodic checks, and those that hang or are slow. On the thread of the
// caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
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

// Finds servers that hang or are slow, from the tokens that they send. A server hangs if it has
// completions in progress and sends no token of any of them for `patience_ms`. The pace of a server
// is its tokens per completion and second; over half of `patience_ms`, a server is slow if another
// one sends more than 10 times its tokens at more than 10 times its pace. A server with few
// completions sends few tokens, and one with many has a low pace, so that neither alone means that
// it is slow.
//
// Times are milliseconds of one monotonic clock. Not thread-safe.
class PaceWatch {
 public:
  PaceWatch(std::size_t servers, std::int64_t patience_ms, std::int64_t now_ms);

  // A completion begins, sends tokens, ends.
  void Begin(std::size_t server, std::int64_t now_ms);
  void CountTokens(std::size_t server, std::size_t tokens, std::int64_t now_ms);
  void End(std::size_t server, std::int64_t now_ms);

  struct Fault {
    std::size_t server;
    std::string why;
    // How long it should get no completions: it may pass its proof, which is short, and be slow
    // again. Doubles with every time in a row.
    std::int64_t rest_ms;
  };

  // Returns the servers that are found to hang or to be slow now.
  std::vector<Fault> Check(std::int64_t now_ms);

 private:
  struct Server {
    std::int64_t running = 0;
    std::int64_t quiet_since_ms = 0;  // last token, or begin of the first completion in progress
    int slow_in_a_row = 0;
    // Of the current window:
    std::int64_t counted_to_ms = 0;
    std::int64_t busy_ms = 0;  // sum over completions
    std::int64_t tokens = 0;
  };

  static void CountBusy(Server& server, std::int64_t now_ms);
  bool IsSlow(const Server& server, std::int64_t window_ms) const;

  const std::int64_t patience_ms_;
  std::int64_t window_began_ms_;
  std::vector<Server> servers_;
};

}  // namespace buttress
