// The long polls that have no answer yet.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "coordinator/loop/turn.h"

namespace buttress {

// Parked calls by what they await and by deadline, so that a turn visits only those that it may
// have an answer for. Not thread-safe.
class ParkedCalls {
 public:
  void Add(LoopRequest* call, std::int64_t deadline_ms) {
    calls_[static_cast<std::size_t>(call->awaits())].emplace(deadline_ms, call);
  }

  std::size_t size() const {
    std::size_t size = 0;
    for (const auto& calls : calls_) size += calls.size();
    return size;
  }

  // Returns the earliest deadline; nullopt if no call is parked.
  std::optional<std::int64_t> NextDeadlineMs() const {
    std::optional<std::int64_t> next;
    for (const auto& calls : calls_) {
      if (!calls.empty())
        next = std::min(next.value_or(calls.begin()->first), calls.begin()->first);
    }
    return next;
  }

  // Removes and returns the calls with deadlines up to `now_ms`.
  std::vector<LoopRequest*> TakeDue(std::int64_t now_ms) {
    std::vector<LoopRequest*> due;
    for (auto& calls : calls_) {
      const auto end = calls.upper_bound(now_ms);
      for (auto call = calls.begin(); call != end; ++call) due.push_back(call->second);
      calls.erase(calls.begin(), end);
    }
    return due;
  }

  std::vector<LoopRequest*> TakeAll() { return TakeDue(std::numeric_limits<std::int64_t>::max()); }

  // Visits the calls that await `what`, those with the earliest deadline first, as long as
  // `wanted()`. Removes a call for which `visit` returns true.
  template <class Visitor, class Wanted>
  void Visit(Awaited what, Visitor visit, Wanted wanted) {
    auto& calls = calls_[static_cast<std::size_t>(what)];
    for (auto call = calls.begin(); call != calls.end() && wanted();)
      call = visit(call->second) ? calls.erase(call) : std::next(call);
  }

 private:
  std::array<std::multimap<std::int64_t, LoopRequest*>, 3> calls_;  // by Awaited
};

}  // namespace buttress
