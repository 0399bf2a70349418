#include "rollout_worker/vllm/server_pool.h"

#include <algorithm>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/report/log.h"

namespace buttress {
namespace {

constexpr int kFailuresInARow = 3;
// How much more of its concurrency a server may use than the least loaded one, to get all of a
// group.
constexpr double kGroupSlack = 0.125;

}  // namespace

ServerPool::ServerPool(const std::vector<std::string>& urls)
    : size_(urls.size()), servers_(urls.size()) {
  for (std::size_t i = 0; i < size_; ++i) servers_[i].info.url = servers_[i].counts.url = urls[i];
}

std::optional<Reservation> ServerPool::Acquire(const PolicyVersion& oldest, std::uint64_t group) {
  MutexLock lock(mutex_);
  const auto load = [this](std::size_t i) REQUIRES(mutex_) {
    const Server& s = servers_[i];
    return static_cast<double>(s.running) / static_cast<double>(s.info.concurrency);
  };
  std::vector<std::size_t> able;
  for (std::size_t i = 0; i < size_; ++i) {
    const Server& s = servers_[i];
    if (s.phase == Phase::kServing && !OlderThan(*s.version, oldest)) able.push_back(i);
  }
  if (able.empty()) return std::nullopt;
  std::size_t best = *std::ranges::min_element(able, {}, load);
  if (load(best) >= 1) return std::nullopt;
  const std::size_t of_group = able[group % able.size()];
  if (load(of_group) < 1 && load(of_group) <= load(best) + kGroupSlack) best = of_group;
  Server& server = servers_[best];
  ++server.running;
  const bool shares_seed = std::ranges::count(servers_, server.info.seed,
                                              [](const Server& s) { return s.info.seed; }) > 1;
  return Reservation{best,
                     server.info.url,
                     server.info.model,
                     *server.version,
                     shares_seed,
                     server.info.takes_stream_interval};
}

void ServerPool::Release(std::size_t server, const Status& ended, bool disconnected) {
  MutexLock lock(mutex_);
  Server& s = servers_[server];
  --s.running;
  if (ended.ok()) ++s.counts.completions;
  const bool server_works = ended.ok() || ended.code() == StatusCode::kAborted ||
                            ended.code() == StatusCode::kInvalidArgument ||
                            ended.code() == StatusCode::kOutOfRange;
  s.failures_in_a_row = server_works ? 0 : s.failures_in_a_row + 1;
  if (disconnected || s.failures_in_a_row >= kFailuresInARow) MarkLostLocked(server, ended);
}

void ServerPool::Release(std::size_t server) {
  MutexLock lock(mutex_);
  --servers_[server].running;
}

void ServerPool::CountTokens(std::size_t server, std::size_t tokens) {
  MutexLock lock(mutex_);
  servers_[server].counts.tokens += static_cast<std::int64_t>(tokens);
}

void ServerPool::MarkLost(std::size_t server, const Status& why, std::int64_t rest_ms) {
  MutexLock lock(mutex_);
  MarkLostLocked(server, why);
  servers_[server].rest_until_ms = RealClock().MonotonicMs() + rest_ms;
}

void ServerPool::MarkLostLocked(std::size_t server, const Status& why) {
  Server& s = servers_[server];
  last_failure_ = why;
  s.recovered = false;
  if (s.phase == Phase::kLost) return;
  s.phase = Phase::kLost;
  ++s.counts.losses;
  lost_.push_back(server);
  Log(kWarn,
      "a vLLM server is lost; it serves again after it loads the weights and passes the canaries",
      {{"server", s.info.url}, {"error", why.ToString()}});
}

std::vector<std::size_t> ServerPool::TakeLost() {
  MutexLock lock(mutex_);
  return std::exchange(lost_, {});
}

void ServerPool::SetHealth(std::size_t server, const Status& health) {
  MutexLock lock(mutex_);
  Server& s = servers_[server];
  s.healthy = health.ok();
  if (health.ok()) {
    s.recovered = true;
  } else {
    MarkLostLocked(server, health);
  }
}

bool ServerPool::NeedsWeights(std::size_t server, const PolicyVersion& target) const {
  MutexLock lock(mutex_);
  const Server& s = servers_[server];
  if (s.phase == Phase::kServing) return !(*s.version == target);
  if (s.phase == Phase::kAsleep) return true;
  return s.phase == Phase::kLost && s.recovered && RealClock().MonotonicMs() >= s.rest_until_ms;
}

bool ServerPool::BeginUpdate(std::size_t server) {
  MutexLock lock(mutex_);
  Server& s = servers_[server];
  if (s.phase == Phase::kLost && !s.recovered) return false;
  s.phase = Phase::kUpdating;
  return true;
}

bool ServerPool::Serve(std::size_t server, ServerInfo info, const PolicyVersion& version) {
  MutexLock lock(mutex_);
  if (!EnterLocked(server, std::move(info), Phase::kServing)) return false;
  servers_[server].version = version;
  return true;
}

bool ServerPool::FallAsleep(std::size_t server, ServerInfo info) {
  MutexLock lock(mutex_);
  return EnterLocked(server, std::move(info), Phase::kAsleep);
}

bool ServerPool::EnterLocked(std::size_t server, ServerInfo info, Phase phase) {
  Server& s = servers_[server];
  if (s.phase != Phase::kUpdating) return false;
  const std::int64_t before = s.info.started_at_ms;
  if (before != 0 && info.started_at_ms != before) ++s.counts.restarts;
  s.info = std::move(info);
  s.phase = phase;
  s.healthy = true;
  s.failures_in_a_row = 0;
  return true;
}

bool ServerPool::Serves(std::size_t server) const {
  MutexLock lock(mutex_);
  return servers_[server].phase == Phase::kServing;
}

bool ServerPool::Updates(std::size_t server) const {
  MutexLock lock(mutex_);
  return servers_[server].phase == Phase::kUpdating;
}

bool ServerPool::Sleeps(std::size_t server) const {
  MutexLock lock(mutex_);
  return servers_[server].phase == Phase::kAsleep;
}

bool ServerPool::AllSleep() const {
  MutexLock lock(mutex_);
  return std::ranges::all_of(servers_, [](const Server& s) {
    return s.phase == Phase::kAsleep || s.phase == Phase::kLost;
  });
}

bool ServerPool::Idle(std::size_t server) const {
  MutexLock lock(mutex_);
  return servers_[server].running == 0 || servers_[server].phase == Phase::kLost;
}

std::optional<PolicyVersion> ServerPool::Served(std::size_t server) const {
  MutexLock lock(mutex_);
  return servers_[server].version;
}

void ServerPool::SetTarget(const PolicyVersion& target) {
  MutexLock lock(mutex_);
  target_ = target;
}

bool ServerPool::MaySample(const PolicyVersion& oldest) const {
  MutexLock lock(mutex_);
  return std::any_of(servers_.begin(), servers_.end(), [&](const Server& s) REQUIRES(mutex_) {
    if (s.phase == Phase::kServing && !OlderThan(*s.version, oldest)) return true;
    const bool will_serve = s.phase == Phase::kUpdating || s.phase == Phase::kAsleep;
    return will_serve && !OlderThan(target_, oldest);
  });
}

bool ServerPool::available() const {
  MutexLock lock(mutex_);
  return std::any_of(servers_.begin(), servers_.end(),
                     [](const Server& s) { return s.phase != Phase::kLost; });
}

std::vector<ServerState> ServerPool::States() const {
  MutexLock lock(mutex_);
  std::vector<ServerState> states;
  for (const Server& server : servers_) {
    ServerState state = server.counts;
    state.healthy = server.healthy;
    state.serving = server.phase == Phase::kServing || server.phase == Phase::kAsleep;
    state.weights_step = server.version.has_value() ? server.version->step : 0;
    states.push_back(std::move(state));
  }
  return states;
}

ServerInfo ServerPool::Info(std::size_t server) const {
  MutexLock lock(mutex_);
  return servers_[server].info;
}

std::int64_t ServerPool::concurrency() const {
  MutexLock lock(mutex_);
  std::int64_t sum = 0;
  for (const Server& server : servers_) sum += server.info.concurrency;
  return sum;
}

std::int64_t ServerPool::max_model_len() const {
  MutexLock lock(mutex_);
  std::int64_t smallest = 0;
  for (const Server& server : servers_) {
    const std::int64_t length = server.info.max_model_len;
    if (length > 0) smallest = smallest == 0 ? length : std::min(smallest, length);
  }
  return smallest;
}

Status ServerPool::last_failure() const {
  MutexLock lock(mutex_);
  return last_failure_;
}

}  // namespace buttress
