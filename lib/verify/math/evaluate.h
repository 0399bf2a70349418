// Values of trees in ball arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/verify/math/ball.h"
#include "lib/verify/math/node.h"

namespace buttress {

// A point gives every free symbol a value: a rational drawn from its name and `index`, of either
// sign, below 4 in magnitude.
struct MathPoint {
  int index = 0;
  long bits = 128;                     // of precision
  std::int64_t* steps_left = nullptr;  // each node takes some
};

// None: no number (text, infinity, tuples), outside a function's domain, or larger than 2^100000,
// which is refused before it is computed, or no steps are left.
std::optional<Ball> Evaluate(const MathNode& node, const MathPoint& point);

// Whether a symbol stands for anything but pi, e and i.
bool HasFreeSymbols(const MathNode& node);

}  // namespace buttress
