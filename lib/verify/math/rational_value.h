// Exact values of trees over rationals.
#pragma once

#include <optional>

#include "lib/verify/math/node.h"

namespace buttress {

inline constexpr std::size_t kMaxValueBits =
    1 << 15;  // of numerator and denominator together; what is larger is not computed

// None: not rational by the four operations, integer powers, factorials and binomials, or too
// large, or a division by zero. Units count as their number.
std::optional<Rational> RationalValue(const MathNode& node);

}  // namespace buttress
