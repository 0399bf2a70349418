#include "lib/base/retry.h"

#include <algorithm>
#include <cmath>

namespace buttress {

std::int64_t Backoff::NextMs() {
  const double bound =
      std::min(static_cast<double>(options_.max_ms),
               static_cast<double>(options_.initial_ms) * std::pow(options_.factor, attempts_));
  ++attempts_;
  return static_cast<std::int64_t>(bound * (0.5 + 0.5 * random_.Uniform()));
}

}  // namespace buttress
