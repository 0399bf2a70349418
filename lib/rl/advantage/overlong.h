// Soft overlong punishment (DAPO, arXiv 2503.14476, Eq 13).
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/report/check.h"

namespace buttress {

// What is added to the reward of a completion of `tokens` tokens, trained or not. With L = `length`
// and C = `cache` it is 0 up to L - C tokens, penalty * ((L - C) - tokens) / C up to L tokens, and
// -penalty beyond; 0 for C = 0. verl has no bound beyond L, which no completion reaches there.
// Pure. REQUIRES: length >= cache >= 0.
inline double OverlongPenalty(std::int64_t tokens, std::int64_t length, std::int64_t cache,
                              double penalty) {
  BUTTRESS_CHECK(length >= cache && cache >= 0, "length >= cache >= 0");
  if (cache == 0) return 0;
  const std::int64_t beyond = std::clamp<std::int64_t>(tokens - (length - cache), 0, cache);
  return -penalty * static_cast<double>(beyond) / static_cast<double>(cache);
}

}  // namespace buttress
