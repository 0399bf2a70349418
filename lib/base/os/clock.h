// The current time. Classes take a Clock so that tests control the time.
#pragma once

#include <cstdint>
#include <string>

namespace buttress {

class Clock {
 public:
  virtual ~Clock() = default;

  // Milliseconds since an unspecified start; never decreases.
  virtual std::int64_t MonotonicMs() const = 0;

  // Milliseconds since 1970-01-01 UTC; may jump when the clock of the machine is set.
  virtual std::int64_t UnixMs() const = 0;
};

// The clock of the machine. Thread-safe; lives as long as the process.
const Clock& RealClock();

// Seconds since an unspecified start, for measuring durations; never decreases.
double MonotonicSeconds();

// ISO 8601 with milliseconds, as in "2025-01-01T00:00:00.000Z".
std::string FormatUtc(std::int64_t unix_ms);

}  // namespace buttress
