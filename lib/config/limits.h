// What the Visit line of a setting says besides its name, field and meaning: which numbers it
// takes, and whether it may change when a run is resumed.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace buttress {

// The numbers that a setting takes; of a list, each element. Rules over several settings are in
// rules/.
struct Limits {
  bool bounded = false;  // false: any number, infinity included
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;  // `least` itself is outside
  bool below_most = false;   // `most` itself is outside
  const char* why = "";      // follows the range in the error message
  bool may_change = false;   // when a run is resumed

  bool Hold(double value) const {
    return !bounded || (std::isfinite(value) && (above_least ? value > least : value >= least) &&
                        (below_most ? value < most : value <= most));
  }
};

constexpr Limits AtLeast(double least) { return {.bounded = true, .least = least}; }

constexpr Limits Between(double least, double most, const char* why = "") {
  return {.bounded = true, .least = least, .most = most, .why = why};
}

inline constexpr Limits kFinite{.bounded = true};
inline constexpr Limits kAbove0{.bounded = true, .least = 0, .above_least = true};
inline constexpr Limits kRate = Between(0, 1);
// In (0, 1].
inline constexpr Limits kShare{.bounded = true, .least = 0, .most = 1, .above_least = true};
// In [0, 1).
inline constexpr Limits kDecay{.bounded = true, .least = 0, .most = 1, .below_most = true};

// `limits` of a setting that may have another value when a run is resumed; it holds from the step
// on with which the run continues.
constexpr Limits MayChange(Limits limits = {}) {
  limits.may_change = true;
  return limits;
}

// Most tokens of a prompt or of a completion; the codec of lib/experience refuses longer ones.
inline constexpr std::int64_t kMaxTokens = 1 << 20;

// Longest time that a setting may ask for.
inline constexpr std::int64_t kDayMs = 86400000;

}  // namespace buttress
