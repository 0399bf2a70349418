#include "lib/base/net/health.h"

#include <fmt/core.h>

namespace buttress {

std::string Health::WhyNotAlive() const {
  const std::int64_t beat_ms = beat_ms_;
  const std::int64_t silent_ms = beat_ms < 0 ? 0 : clock_.MonotonicMs() - beat_ms;
  if (silent_ms <= kLongestTurnMs) return "";
  return fmt::format("the loop has not turned for {} s; it waits for a disk or hangs",
                     silent_ms / 1000);
}

std::string Health::WhyNotReady() const {
  const std::string dead = WhyNotAlive();
  return !dead.empty() || ready_ ? dead : "calls are not served";
}

}  // namespace buttress
