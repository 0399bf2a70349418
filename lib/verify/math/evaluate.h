// Evaluates trees in ball arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/verify/math/ball.h"
#include "lib/verify/math/syntax/node.h"

namespace buttress {

// A point assigns a value to every free symbol: a rational of either sign below 4 in magnitude,
// derived from the symbol's name and `index`.
struct MathPoint {
  int index = 0;
  long bits = 128;                     // of precision
  std::int64_t* steps_left = nullptr;  // every node uses some
};

// Returns nullopt if the node is not a number (text, infinity, tuples), is outside a function's
// domain, exceeds 2^100000 (which is refused before it is computed), or if no steps are left.
std::optional<Ball> Evaluate(const MathNode& node, const MathPoint& point);

// Returns whether the node contains a symbol other than pi, e and i.
bool HasFreeSymbols(const MathNode& node);

}  // namespace buttress
