// The time by which leases age and long polls end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/os/clock.h"

namespace buttress {

// The clock of the machine without the times in which no worker could renew its leases: pauses of
// the run, and stalls of this process. Not thread-safe.
class LeaseClock {
 public:
  // The longest time between two turns of a process that runs.
  static constexpr std::int64_t kLongestTurnMs = 4000;

  explicit LeaseClock(const Clock& clock) : clock_(clock), ticked_ms_(clock.MonotonicMs()) {}

  // Begins a turn. Returns the length of the stall before it, or 0 if there was none.
  std::int64_t Tick() {
    const std::int64_t now_ms = clock_.MonotonicMs();
    const std::int64_t away_ms = now_ms - ticked_ms_;
    ticked_ms_ = now_ms;
    if (away_ms <= kLongestTurnMs) return 0;
    skipped_ms_ += away_ms;
    return away_ms;
  }

  // Leaves out the time since the last turn.
  void Skip() {
    const std::int64_t now_ms = clock_.MonotonicMs();
    skipped_ms_ += now_ms - ticked_ms_;
    ticked_ms_ = now_ms;
  }

  // Returns the time of the last turn.
  std::int64_t now_ms() const { return ticked_ms_ - skipped_ms_; }

  // Returns how far away `at_ms` of this clock is.
  std::int64_t MsUntil(std::int64_t at_ms) const {
    return std::max<std::int64_t>(at_ms + skipped_ms_ - clock_.MonotonicMs(), 0);
  }

 private:
  const Clock& clock_;
  std::int64_t ticked_ms_;       // of the machine
  std::int64_t skipped_ms_ = 0;  // left out so far
};

}  // namespace buttress
