// Bounds of the groups that workers submit.
#pragma once

#include <cstdint>

#include "lib/experience/check.h"

namespace buttress {

// The size of a submitted group in bytes, at most.
inline constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{256} << 20;

// The size of all groups that are arriving or wait for the loop, at most.
inline constexpr std::uint64_t kMostArrivingBytes = std::uint64_t{1} << 30;

// Returns a size that no group within `limits` exceeds, kMaxGroupBytes at most.
std::uint64_t MaxGroupBytes(const GroupLimits& limits);

}  // namespace buttress
