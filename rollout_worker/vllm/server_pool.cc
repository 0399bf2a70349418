#include "rollout_worker/vllm/server_pool.h"

#include <utility>

#include "lib/base/log.h"

namespace buttress {
namespace {

constexpr int kFailuresInARow = 3;

}  // namespace

ServerPool::ServerPool(std::vector<ServerInfo> servers) {
  for (ServerInfo& info : servers) servers_.push_back({std::move(info)});
}

std::optional<std::size_t> ServerPool::Acquire() {
  MutexLock lock(mutex_);
  std::optional<std::size_t> best;
  const auto load = [](const Server& s) {
    return static_cast<double>(s.running) / static_cast<double>(s.info.concurrency);
  };
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const Server& server = servers_[i];
    if (server.lost || server.running >= server.info.concurrency) continue;
    if (!best.has_value() || load(server) < load(servers_[*best])) best = i;
  }
  if (best.has_value()) ++servers_[*best].running;
  return best;
}

void ServerPool::Release(std::size_t server, const Status& ended) {
  MutexLock lock(mutex_);
  Server& s = servers_[server];
  --s.running;
  const bool server_works = ended.ok() || ended.code() == StatusCode::kAborted ||
                            ended.code() == StatusCode::kInvalidArgument;
  s.failures_in_a_row = server_works ? 0 : s.failures_in_a_row + 1;
  if (ended.code() == StatusCode::kDeadlineExceeded || s.failures_in_a_row >= kFailuresInARow)
    MarkLostLocked(s, ended);
}

void ServerPool::Release(std::size_t server) {
  MutexLock lock(mutex_);
  --servers_[server].running;
}

void ServerPool::MarkLost(std::size_t server, const Status& why) {
  MutexLock lock(mutex_);
  MarkLostLocked(servers_[server], why);
}

void ServerPool::MarkLostLocked(Server& server, const Status& why) {
  last_failure_ = why;
  server.recovered = false;
  if (server.lost) return;
  server.lost = true;
  Log(kWarn,
      "a vLLM server is lost; it serves again after it loads the weights and passes the canaries",
      {{"server", server.info.url}, {"error", why.ToString()}});
}

bool ServerPool::Restore(std::size_t server, ServerInfo info) {
  MutexLock lock(mutex_);
  Server& s = servers_[server];
  if (!s.recovered) return false;
  s.info = std::move(info);
  s.lost = false;
  s.failures_in_a_row = 0;
  return true;
}

void ServerPool::SetHealth(std::size_t server, const Status& health) {
  MutexLock lock(mutex_);
  Server& s = servers_[server];
  s.healthy = health.ok();
  s.recovered = health.ok();
  if (!health.ok()) MarkLostLocked(s, health);
}

std::vector<std::size_t> ServerPool::Serving() const {
  MutexLock lock(mutex_);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i].lost) found.push_back(i);
  }
  return found;
}

std::vector<std::size_t> ServerPool::Recovered() const {
  MutexLock lock(mutex_);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i].lost && servers_[i].recovered) found.push_back(i);
  }
  return found;
}

std::vector<ServerState> ServerPool::States() const {
  MutexLock lock(mutex_);
  std::vector<ServerState> states;
  for (const Server& server : servers_)
    states.push_back({server.info.url, server.healthy, !server.lost});
  return states;
}

ServerInfo ServerPool::Info(std::size_t server) const {
  MutexLock lock(mutex_);
  return servers_[server].info;
}

std::size_t ServerPool::size() const {
  MutexLock lock(mutex_);
  return servers_.size();
}

Status ServerPool::last_failure() const {
  MutexLock lock(mutex_);
  return last_failure_;
}

}  // namespace buttress
