// Time as a dependency: parts take a Clock so that tests decide what time it is.
#pragma once

#include <cstdint>
#include <string>

namespace buttress {

class Clock {
 public:
  virtual ~Clock() = default;

  // Milliseconds that never go back; only differences mean anything.
  virtual std::int64_t MonotonicMs() const = 0;

  // Milliseconds since 1970, UTC; may jump.
  virtual std::int64_t UnixMs() const = 0;
};

// The machine's clock. Thread-safe; lives as long as the process.
const Clock& RealClock();

// Seconds that never go back, for measuring.
double MonotonicSeconds();

// "2025-01-01T00:00:00.000Z".
std::string FormatUtc(std::int64_t unix_ms);

}  // namespace buttress
