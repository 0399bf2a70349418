// The mini-batches of a step, one for each update (Schulman et al., arXiv 1707.06347, Algorithm 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/text/random.h"
#include "lib/config/run_config.h"

namespace buttress {

// Returns [N], the mini-batch, 0 ... count - 1, of each completion: prompts with their groups, or
// single completions, in the random order of `key`, cut into `count` mini-batches whose sizes
// differ by at most one. Group k owns rows [group_offsets[k], group_offsets[k + 1]). Pure.
// REQUIRES: count >= 1.
std::vector<std::int32_t> DrawMiniBatches(std::span<const std::int32_t> group_offsets,
                                          std::int32_t count, MiniBatchOf of, RandomKey key);

}  // namespace buttress
