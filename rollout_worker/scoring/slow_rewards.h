// Notices verifiers that take most of the scoring threads' time, so that the run waits for rewards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lib/base/thread/sync.h"

namespace buttress {

struct SlowReward {
  std::string verifier;   // the slowest
  double share = 0;       // of the time of all scoring threads, 0 to 1
  double seconds = 0;     // for one completion, mean
  double busy_share = 0;  // of all verifiers together
};

// Thread-safe.
class SlowRewards {
 public:
  static constexpr double kWindowSeconds = 20;
  static constexpr double kBusyShare = 0.8;

  SlowRewards(std::size_t threads, double now)
      : threads_(static_cast<double>(threads)), begin_(now) {}

  // Adds the time that a verifier took for one completion.
  void Add(const std::string& verifier, double seconds);

  // Returns the slowest verifier when a window of kWindowSeconds has passed in which all of them
  // together took more than kBusyShare of the threads' time, and begins the next window.
  std::optional<SlowReward> Poll(double now);

 private:
  struct Spent {
    double seconds = 0;
    std::int64_t completions = 0;
  };

  const double threads_;
  Mutex mutex_;
  double begin_ GUARDED_BY(mutex_);
  std::map<std::string, Spent> spent_ GUARDED_BY(mutex_);
};

}  // namespace buttress
