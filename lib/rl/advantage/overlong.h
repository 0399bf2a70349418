// Soft overlong punishment (DAPO, arXiv 2503.14476, Eq 13). Torch-free, pure.
#pragma once

#include <cstdint>

namespace buttress {

// What is added to the reward of a completion of `tokens` tokens, trained or not; L = `length`, C =
//   `cache`: 0 up to L - C tokens, penalty ((L - C) - tokens) / C up to L, -penalty beyond. C = 0:
//   0.
// verl has no bound beyond L, which no completion reaches there. REQUIRES: length >= cache >= 0.
double OverlongPenalty(std::int64_t tokens, std::int64_t length, std::int64_t cache,
                       double penalty);

}  // namespace buttress
