// The deadlines of leases, by group and by time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace buttress {

// A lease ends at its deadline, which renewals move, and at its limit, which nothing moves: a group
// that a worker renews without end holds up the run like one that nobody has.
class LeaseDeadlines {
 public:
  // Begins a lease.
  void Grant(std::uint64_t group_id, std::int64_t deadline_ms, std::int64_t limit_ms) {
    Erase(group_id);
    limits_[group_id] = limit_ms;
    Renew(group_id, deadline_ms);
  }

  // REQUIRES: the lease was granted.
  void Renew(std::uint64_t group_id, std::int64_t deadline_ms) {
    EraseDeadline(group_id);
    deadline_ms = std::min(deadline_ms, limits_.at(group_id));
    by_group_.emplace(group_id, deadline_ms);
    by_time_.emplace(deadline_ms, group_id);
  }

  void Erase(std::uint64_t group_id) {
    EraseDeadline(group_id);
    limits_.erase(group_id);
  }

  void Clear() {
    limits_.clear();
    by_group_.clear();
    by_time_.clear();
  }

  // Returns the groups whose lease has expired, in id order.
  std::vector<std::uint64_t> Due(std::int64_t now_ms) const {
    std::vector<std::uint64_t> ids;
    for (auto next = by_time_.begin(); next != by_time_.end() && next->first <= now_ms; ++next)
      ids.push_back(next->second);
    std::ranges::sort(ids);
    return ids;
  }

  // Returns true if the lease has reached the limit that renewals do not move.
  bool AtLimit(std::uint64_t group_id, std::int64_t now_ms) const {
    return limits_.at(group_id) <= now_ms;
  }

  std::optional<std::int64_t> earliest() const {
    if (by_time_.empty()) return std::nullopt;
    return by_time_.begin()->first;
  }

 private:
  void EraseDeadline(std::uint64_t group_id) {
    const auto found = by_group_.find(group_id);
    if (found == by_group_.end()) return;
    by_time_.erase({found->second, group_id});
    by_group_.erase(found);
  }

  std::map<std::uint64_t, std::int64_t> limits_;
  std::map<std::uint64_t, std::int64_t> by_group_;
  std::set<std::pair<std::int64_t, std::uint64_t>> by_time_;
};

}  // namespace buttress
