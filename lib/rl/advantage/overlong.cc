#include "lib/rl/advantage/overlong.h"

#include <algorithm>

#include "lib/base/check.h"

namespace buttress {

double OverlongPenalty(std::int64_t tokens, std::int64_t length, std::int64_t cache,
                       double penalty) {
  BUTTRESS_CHECK(length >= cache && cache >= 0, "length >= cache >= 0");
  if (cache == 0) return 0;
  const std::int64_t beyond = std::clamp<std::int64_t>(tokens - (length - cache), 0, cache);
  return -penalty * static_cast<double>(beyond) / static_cast<double>(cache);
}

}  // namespace buttress
