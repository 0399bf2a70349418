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

class LeaseDeadlines {
 public:
  void Set(std::uint64_t group_id, std::int64_t deadline_ms) {
    Erase(group_id);
    by_group_.emplace(group_id, deadline_ms);
    by_time_.emplace(deadline_ms, group_id);
  }

  void Erase(std::uint64_t group_id) {
    const auto found = by_group_.find(group_id);
    if (found == by_group_.end()) return;
    by_time_.erase({found->second, group_id});
    by_group_.erase(found);
  }

  void Clear() {
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

  std::optional<std::int64_t> earliest() const {
    if (by_time_.empty()) return std::nullopt;
    return by_time_.begin()->first;
  }

 private:
  std::map<std::uint64_t, std::int64_t> by_group_;
  std::set<std::pair<std::int64_t, std::uint64_t>> by_time_;
};

}  // namespace buttress
