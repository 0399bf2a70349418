#include "rollout_worker/vllm/health_poller.h"

#include <algorithm>
#include <limits>

#include "lib/base/os/clock.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {

HttpRequest HealthRequest(const VllmConfig& config, const std::string& url) {
  HttpRequest request;
  request.url = url + "/health";
  request.deadlines = {std::min(config.connect_ms, config.health_timeout_ms),
                       config.health_timeout_ms, config.health_timeout_ms,
                       config.health_timeout_ms};
  return request;
}

Status HealthOf(const Result<HttpReply>& reply, const std::string& url) {
  const Status status = reply.ok() ? StatusOf(*reply, url + "/health") : reply.status();
  return status.ok() ? status : Unavailable("health check: " + status.message());
}

HealthPoller::HealthPoller(const VllmConfig& config, ServerPool& pool, HttpClient& http)
    : config_(config),
      pool_(pool),
      http_(http),
      due_ms_(pool.size(), RealClock().MonotonicMs() + config.health_interval_ms) {}

void HealthPoller::Begin() {
  const std::int64_t now = RealClock().MonotonicMs();
  for (std::size_t server = 0; server < due_ms_.size(); ++server) {
    if (due_ms_[server] == kInProgress || due_ms_[server] > now) continue;
    due_ms_[server] = kInProgress;
    http_.Start(HealthRequest(config_, pool_.Info(server).url), nullptr,
                [this, server](Result<HttpReply> reply) { End(server, reply); });
  }
}

void HealthPoller::End(std::size_t server, const Result<HttpReply>& reply) {
  due_ms_[server] = RealClock().MonotonicMs() + config_.health_interval_ms;
  pool_.SetHealth(server, HealthOf(reply, pool_.Info(server).url));
}

std::int64_t HealthPoller::WaitMs() const {
  std::int64_t wait_ms = std::numeric_limits<std::int64_t>::max();
  const std::int64_t now = RealClock().MonotonicMs();
  for (const std::int64_t due : due_ms_) {
    if (due != kInProgress) wait_ms = std::min(wait_ms, std::max<std::int64_t>(0, due - now));
  }
  return wait_ms;
}

}  // namespace buttress
