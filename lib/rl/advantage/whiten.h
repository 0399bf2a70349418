// Whitening over all tokens of a batch, as verl's masked_whiten.
#pragma once

#include <cstdint>
#include <span>

#include "lib/rl/advantage/group_stats.h"

namespace buttress {

// values[i] = (values[i] - m) / sqrt(v + 1e-8), or values[i] - m for kNone, where value i counts
// lengths[i] times: m = sum T x / sum T and v = sum T (x - m)^2 / (sum T - 1), kPopulation / sum T.
// Exactly 0 everywhere if all values that have tokens are equal. A value without tokens is in
// neither statistic. Pure.
void WhitenTokens(std::span<const std::int32_t> lengths, StdKind kind, std::span<double> values);

}  // namespace buttress
