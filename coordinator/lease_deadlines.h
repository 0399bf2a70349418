// The deadlines of leases, by worker and by time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace buttress {

// The leases of a worker end together, at a deadline that each of its calls renews, in O(log n)
// whatever it holds. Each of them also ends at its limit, which nothing moves: a group that a
// worker renews without end holds up the run like one that nobody has.
class LeaseDeadlines {
 public:
  // Begins a lease, and renews those of its worker.
  void Grant(std::uint64_t group_id, const std::string& worker_id, std::int64_t deadline_ms,
             std::int64_t limit_ms) {
    Erase(group_id);
    leases_[group_id] = {worker_id, limit_ms};
    by_limit_.emplace(limit_ms, group_id);
    workers_[worker_id].groups.insert(group_id);
    Renew(worker_id, deadline_ms);
  }

  void Renew(const std::string& worker_id, std::int64_t deadline_ms) {
    const auto worker = workers_.find(worker_id);
    if (worker == workers_.end()) return;
    by_deadline_.erase({worker->second.deadline_ms, worker_id});
    worker->second.deadline_ms = deadline_ms;
    by_deadline_.emplace(deadline_ms, worker_id);
  }

  void Erase(std::uint64_t group_id) {
    const auto lease = leases_.find(group_id);
    if (lease == leases_.end()) return;
    by_limit_.erase({lease->second.limit_ms, group_id});
    const auto worker = workers_.find(lease->second.worker_id);
    worker->second.groups.erase(group_id);
    if (worker->second.groups.empty()) {
      by_deadline_.erase({worker->second.deadline_ms, worker->first});
      workers_.erase(worker);
    }
    leases_.erase(lease);
  }

  void Clear() { *this = {}; }

  // Returns the groups whose lease has expired, in id order.
  std::vector<std::uint64_t> Due(std::int64_t now_ms) const {
    std::set<std::uint64_t> ids;
    for (auto next = by_deadline_.begin(); next != by_deadline_.end() && next->first <= now_ms;
         ++next) {
      const std::set<std::uint64_t>& groups = workers_.at(next->second).groups;
      ids.insert(groups.begin(), groups.end());
    }
    for (auto next = by_limit_.begin(); next != by_limit_.end() && next->first <= now_ms; ++next)
      ids.insert(next->second);
    return {ids.begin(), ids.end()};
  }

  // Returns the groups whose lease reaches its limit before `limit_ms`, the first ones first.
  std::vector<std::uint64_t> WithLimitBefore(std::int64_t limit_ms) const {
    std::vector<std::uint64_t> ids;
    for (auto next = by_limit_.begin(); next != by_limit_.end() && next->first < limit_ms; ++next)
      ids.push_back(next->second);
    return ids;
  }

  // Returns when the lease reaches the limit that renewals do not move.
  std::int64_t limit(std::uint64_t group_id) const { return leases_.at(group_id).limit_ms; }

  // Returns when the next lease expires.
  std::optional<std::int64_t> earliest() const {
    if (leases_.empty()) return std::nullopt;
    return std::min(by_deadline_.begin()->first, by_limit_.begin()->first);
  }

 private:
  struct Lease {
    std::string worker_id;
    std::int64_t limit_ms = 0;
  };

  struct Worker {
    std::int64_t deadline_ms = 0;
    std::set<std::uint64_t> groups;
  };

  std::map<std::uint64_t, Lease> leases_;
  std::set<std::pair<std::int64_t, std::uint64_t>> by_limit_;
  std::map<std::string, Worker> workers_;  // that have leases
  std::set<std::pair<std::int64_t, std::string>> by_deadline_;
};

}  // namespace buttress
