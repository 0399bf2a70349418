// Retry with exponential backoff and full jitter: the one place that decides how long to wait
// before trying again.
#pragma once

#include <cstdint>

#include "lib/base/random.h"

namespace buttress {

struct BackoffOptions {
  std::int64_t initial_ms = 100;
  std::int64_t max_ms = 5000;
  double factor = 2.0;
};

// Not thread-safe.
class Backoff {
 public:
  explicit Backoff(BackoffOptions options, std::uint64_t seed)
      : options_(options), random_({seed, 0}) {}

  // How long to wait before the next attempt, in [half, whole] of a bound that grows with each
  // call.
  std::int64_t NextMs();

  void Reset() { attempts_ = 0; }

  int attempts() const { return attempts_; }

 private:
  BackoffOptions options_;
  RandomStream random_;
  int attempts_ = 0;
};

}  // namespace buttress
