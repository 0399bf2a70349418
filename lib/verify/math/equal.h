// When two answers say the same.
//
// Numbers: exactly, as rationals; else as balls at 128 and then 768 bits, which prove a difference
// and never use an absolute tolerance. With free symbols: at several points, real ones where both
// are real. A decimal equals a value that rounds to it at its own digits. Units: a missing one is
// ignored, a different one is not. 50% equals 0.5, and 50 (a missing sign); 30° equals pi/6,
// and 30. Order counts in tuples, intervals and matrices, not in sets, lists and unions. x = 5
// equals 5. An inequality in one symbol equals its interval. Equations are equal if the one is a
// multiple of the other.
#pragma once

#include "lib/verify/math/node.h"

namespace buttress {

enum class Sameness {
  kSame,
  kDifferent,
  kUndecided
};  // undecided: neither is a number that can be computed, and they are written differently

Sameness CompareMath(const MathNode& given, const MathNode& gold);

// Of two values, neither a list nor a relation; scalar.cc.
Sameness CompareScalars(const MathNode& given, const MathNode& gold);

// Whether a = b and c = d, as differences, are multiples of each other; `sign` is that of the
// factor.
Sameness CompareMultiples(const MathNode& given, const MathNode& gold, int& sign);

}  // namespace buttress
