// When two answers say the same.
//
// In both modes. Numbers: exactly, as rationals; else as balls at 128 and then 768 bits, which
// prove a difference and never use an absolute tolerance. With free symbols: at several points,
// real ones where both are real. Order counts in tuples, intervals and matrices, not in sets, lists
// and unions; sets have each member once, lists as often as it is written. Unions, intersections
// and differences of intervals are compared as sets of real numbers. Equations are the same if the
// one is a multiple of the other. The case of words does not count. ± is both values.
//
// Strict: nothing else. Both must have the same unit, percent sign, degree sign and base, and be
// the same kind of thing: 0.33 is not 1/3, 5 not 5 cm, 50% not 1/2, 1, 2 not {1, 2}, x = 5 not 5, x
// > 3 not (3, ∞), x = 1, y = 2 not (1, 2).
//
// Lenient, also the same:
//   decimals     one that rounds an exact value at its own digits, 0.00 apart: 0.33 and 1/3, 3.14 and π; not 0.33 and 0.333
//   units        one that only one side has; different ones never are. 50% is 0.5 and 50 (a missing sign), 30° is π/6 and 30
//   bases        one that only one side has: 664 and 664_7
//   lists        1, 2 and {1, 2}
//   equations    x = 5 and 5, x ∈ S and S, f(x) = 2x and 2x; of x = a = b the last, of 2 + 3 = 5 the 5 if it is true, of a ≈ b the a if b is
//                near it
//   inequalities in one symbol, and their interval or union: x < 1 or x > 2, x ≠ 3
//   assignments  x = 1, y = 2 and (1, 2), values in the order of their names
//   texts        "no solution" and ∅, "all real numbers" and (-∞, ∞)
//   choices      (C) 12 and C, (C) 12 and 12
#pragma once

#include <cstdint>
#include <optional>

#include "lib/config/math_config.h"
#include "lib/verify/math/node.h"

namespace buttress {

// Nodes that are compared or evaluated for two answers; one evaluated at 768 bits counts six, a
// function eight times that.
inline constexpr std::int64_t kMaxMathSteps = 200'000;

// How two answers are compared, and what is left of the work that it may take. Past it nothing has
// a value, and all are different.
struct MathComparison {
  MathMode mode = MathMode::kLenient;
  std::int64_t steps_left = kMaxMathSteps;

  bool lenient() const { return mode == MathMode::kLenient; }
};

enum class Sameness {
  kSame,
  kDifferent,
  kUndecided
};  // undecided: neither is a number that can be computed, and they are written differently

Sameness CompareMath(const MathNode& given, const MathNode& gold, MathComparison& how);

// Of two values, neither a list nor a relation; scalar.cc.
Sameness CompareScalars(const MathNode& given, const MathNode& gold, MathComparison& how);

// Whether the value of `exact` rounds to `decimal` or is cut off to it at its digits: 2/3 ≈ 0.67,
// 2/3 ≈ 0.66, π ≈ 3. True where one has no value.
bool IsNear(const MathNode& exact, const MathNode& decimal, MathComparison& how);

// Whether a = b and c = d, as differences, are multiples of each other; `sign` is that of the
// factor.
Sameness CompareMultiples(const MathNode& given, const MathNode& gold, int& sign,
                          MathComparison& how);

// Whether both are the same set of real numbers; real_set.cc. None: one is no set with bounds that
// are known numbers.
std::optional<bool> SameRealSet(const MathNode& given, const MathNode& gold, MathComparison& how);

// The interval of an inequality in one symbol: x < 3, 1 ≤ x < 3; relation.cc.
std::optional<MathNode> ToInterval(const MathNode& node);

// x, f(x): what an equation may define.
bool IsMathName(const MathNode& node);

// x = 5, x ∈ S: a name, and what it stands for or is one of.
bool IsDefinition(const MathNode& node);

// a > b as b < a, so that < and ≤ are left, with = and the rest as they are.
MathNode Ascending(const MathNode& relation);

// ∞ or -∞.
bool IsInfinite(const MathNode& node);

}  // namespace buttress
