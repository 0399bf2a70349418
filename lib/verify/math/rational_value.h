// Evaluates trees exactly over the rationals.
#pragma once

#include <optional>

#include "lib/verify/math/syntax/node.h"

namespace buttress {

// The bound of numerator and denominator together. Larger values are not computed.
inline constexpr std::size_t kMaxValueBits = 1 << 15;

// Returns nullopt if the node is not rational by the four operations, integer powers, factorials
// and binomials, if it is too large, or if it divides by zero. Units are ignored.
std::optional<Rational> RationalValue(const MathNode& node);

}  // namespace buttress
