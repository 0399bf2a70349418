// Exponential backoff with jitter.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "lib/base/text/random.h"

namespace buttress {

struct BackoffOptions {
  std::int64_t initial_ms = 100;  // bound of the first wait
  std::int64_t max_ms = 5000;     // largest bound
  double factor = 2.0;            // growth of the bound from one wait to the next
};

// Computes the waits between the attempts of one operation. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(BackoffOptions options, std::uint64_t seed)
      : options_(options), random_({seed, 0}) {}

  // Returns the wait before the next attempt in milliseconds, uniform between half the bound and
  // the bound.
  std::int64_t NextMs() {
    const double bound =
        std::min(static_cast<double>(options_.max_ms),
                 static_cast<double>(options_.initial_ms) * std::pow(options_.factor, attempts_));
    ++attempts_;
    return static_cast<std::int64_t>(bound * (0.5 + 0.5 * random_.Uniform()));
  }

  // Returns to the first bound, after a success.
  void Reset() { attempts_ = 0; }

  int attempts() const { return attempts_; }

 private:
  BackoffOptions options_;
  RandomStream random_;
  int attempts_ = 0;
};

}  // namespace buttress
