// Short names for the tables of rewards and outcomes in the tests of this folder.
#pragma once

#include <limits>

#include "lib/experience/types.h"

namespace buttress {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr Outcome kC = Outcome::kCorrect;
inline constexpr Outcome kW = Outcome::kWrong;
inline constexpr Outcome kU = Outcome::kUnscorable;

}  // namespace buttress
