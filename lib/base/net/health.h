// The answers to the probes of a program: /livez and /readyz of its metrics port.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lib/base/os/clock.h"

namespace buttress {

// A program is alive while its loop turns, and ready while it is alive and serves. A program
// without a loop is alive, and ready unless it says otherwise. Thread-safe.
class Health {
 public:
  // A turn of a loop that takes longer is one that hangs, on a disk that does not answer for
  // example.
  static constexpr std::int64_t kLongestTurnMs = 10000;

  explicit Health(const Clock& clock = RealClock()) : clock_(clock) {}

  // The loop turns: called at least every kLongestTurnMs from the first call on.
  void Beat() { beat_ms_ = clock_.MonotonicMs(); }

  void SetReady(bool ready) { ready_ = ready; }

  // Why the program is not alive, or not ready, in one line; empty if it is.
  std::string WhyNotAlive() const;
  std::string WhyNotReady() const;

 private:
  const Clock& clock_;
  std::atomic<std::int64_t> beat_ms_ = -1;  // -1: no loop
  std::atomic<bool> ready_ = true;
};

}  // namespace buttress
