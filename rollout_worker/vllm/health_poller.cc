#include "rollout_worker/vllm/health_poller.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "lib/base/os/clock.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {
namespace {

constexpr std::int64_t kSlowFactor = 10;
constexpr int kMaxDoublings = 5;

}  // namespace

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

PaceWatch::PaceWatch(std::size_t servers, std::int64_t patience_ms, std::int64_t now_ms)
    : patience_ms_(patience_ms), window_began_ms_(now_ms), servers_(servers) {
  for (Server& server : servers_) server.counted_to_ms = now_ms;
}

void PaceWatch::CountBusy(Server& server, std::int64_t now_ms) {
  server.busy_ms += server.running * (now_ms - server.counted_to_ms);
  server.counted_to_ms = now_ms;
}

void PaceWatch::Begin(std::size_t server, std::int64_t now_ms) {
  Server& s = servers_[server];
  CountBusy(s, now_ms);
  if (s.running++ == 0) s.quiet_since_ms = now_ms;
}

void PaceWatch::CountTokens(std::size_t server, std::size_t tokens, std::int64_t now_ms) {
  servers_[server].tokens += static_cast<std::int64_t>(tokens);
  servers_[server].quiet_since_ms = now_ms;
}

void PaceWatch::End(std::size_t server, std::int64_t now_ms) {
  CountBusy(servers_[server], now_ms);
  --servers_[server].running;
}

bool PaceWatch::IsSlow(const Server& server, std::int64_t window_ms) const {
  if (server.busy_ms < window_ms) return false;  // it had less than one completion at a time
  return std::ranges::any_of(servers_, [&](const Server& other) {
    // tokens / busy_ms is the pace; the products compare paces without a division by 0.
    return other.tokens > kSlowFactor * server.tokens &&
           other.tokens * server.busy_ms > kSlowFactor * server.tokens * other.busy_ms;
  });
}

std::vector<PaceWatch::Fault> PaceWatch::Check(std::int64_t now_ms) {
  std::vector<Fault> faults;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    if (server.running == 0 || now_ms - server.quiet_since_ms < patience_ms_) continue;
    server.quiet_since_ms = now_ms;
    faults.push_back(
        {i, fmt::format("no token of {} completions in {} ms", server.running, patience_ms_), 0});
  }
  const std::int64_t window_ms = now_ms - window_began_ms_;
  if (window_ms < patience_ms_ / 2) return faults;
  for (Server& server : servers_) CountBusy(server, now_ms);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    if (IsSlow(server, window_ms)) {
      const std::int64_t rest_ms = patience_ms_ << std::min(server.slow_in_a_row, kMaxDoublings);
      ++server.slow_in_a_row;
      faults.push_back({i,
                        fmt::format("slow: {} tokens in {} ms, less than a tenth of another server",
                                    server.tokens, window_ms),
                        rest_ms});
    } else if (server.busy_ms >= window_ms) {
      server.slow_in_a_row = 0;
    }
  }
  for (Server& server : servers_) server.busy_ms = server.tokens = 0;
  window_began_ms_ = now_ms;
  return faults;
}

}  // namespace buttress
