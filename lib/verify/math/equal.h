// Decides whether two answers are equal.
//
// In both modes:
//   - Numbers are compared exactly as rationals, else as balls at 128 and then 768 bits, which
//     prove a difference. No absolute tolerance is used.
//   - Expressions with free symbols are compared at several points, at real ones if both are real.
//   - Order matters in tuples, intervals and matrices, but not in sets, lists and unions. A member
//     counts once in a set, and as often as it is written in a list.
//   - Unions, intersections and differences of intervals are compared as sets of real numbers.
//   - Equations are equal if one is a multiple of the other.
//   - The case of words is ignored. ± stands for both values.
//
// Strict mode adds nothing. Both answers must have the same unit, percent sign, degree sign, base
// and kind: 0.33 is not 1/3, 5 is not 5 cm, 50% is not 1/2, "1, 2" is not {1, 2}, x = 5 is not 5,
// x > 3 is not (3, ∞), and "x = 1, y = 2" is not (1, 2). Nor is a computation a numeral: 2 + 3 is
// not 5 (restated.h).
//
// Lenient mode accepts these as equal as well:
//   decimals     a decimal that rounds an exact value at its own digits, except 0.00: 0.33 and 1/3,
//                3.14 and π; but not 0.33 and 0.333
//   units        a unit that only one side has, and units of one dimension by their sizes, as 350
//                cents and $3.50. Other units are never equal. 50% equals 0.5 and 50 (a missing
//                sign), 30° equals π/6 and 30
//   bases        a base that only one side has: 664 and 664_7
//   lists        1, 2 and {1, 2}
//   equations    x = 5 and 5, x ∈ S and S, f(x) = 2x and 2x. In x = a = b the last value counts,
//                unless a is another number, in 2 + 3 = 5 the 5 if the equation holds, in a ≈ b the
//                a if b is near it
//   inequalities an inequality in one symbol and its interval or union: x < 1 or x > 2, x ≠ 3,
//                |x| < 2
//   integers     the name of a free integer, k, m or n, beside π: x = nπ, n ∈ Z and kπ
//   assignments  x = 1, y = 2 and (1, 2), with values in the order of the names
//   texts        "no solution" and ∅, "all real numbers" and (-∞, ∞)
//   choices      (C) 12 and C, (C) 12 and 12
#pragma once

#include <cstdint>
#include <optional>

#include "lib/config/sections/reward_config.h"
#include "lib/verify/math/syntax/node.h"

namespace buttress {

// The bound of nodes that are compared or evaluated for two answers. A node that is evaluated at
// 768 bits counts six, and a function eight times as much.
inline constexpr std::int64_t kMaxMathSteps = 200'000;

// The mode of a comparison and its remaining budget of work. After the budget is spent, no node has
// a value and all nodes differ.
struct MathComparison {
  MathMode mode = MathMode::kLenient;
  std::int64_t steps_left = kMaxMathSteps;

  bool lenient() const { return mode == MathMode::kLenient; }
};

// kUndecided: neither side is a number that can be computed, and the two are written differently.
enum class Sameness { kSame, kDifferent, kUndecided };

inline Sameness FromBool(bool same) { return same ? Sameness::kSame : Sameness::kDifferent; }

Sameness CompareMath(const MathNode& given, const MathNode& gold, MathComparison& how);

// Compares two values that are neither lists nor relations (scalar.cc).
Sameness CompareScalars(const MathNode& given, const MathNode& gold, MathComparison& how);

// Returns whether the value of `exact` rounds or truncates to `decimal` at its digits: 2/3 ≈ 0.67,
// 2/3 ≈ 0.66, π ≈ 3. Returns true if one of them has no value.
bool IsNear(const MathNode& exact, const MathNode& decimal, MathComparison& how);

// Compares a - b with c - d for the equations a = b and c = d: equal if they are multiples of each
// other. `sign` is the sign of the factor.
Sameness CompareMultiples(const MathNode& given, const MathNode& gold, int& sign,
                          MathComparison& how);

// Returns whether both are the same set of real numbers (real_set.cc), or nullopt if one of them is
// not a set whose bounds are known numbers.
std::optional<bool> SameRealSet(const MathNode& given, const MathNode& gold, MathComparison& how);

// Returns the interval of an inequality in one symbol, such as x < 3 or 1 ≤ x < 3 (real_set.cc).
std::optional<MathNode> ToInterval(const MathNode& node);

// Returns whether an equation may define the node: x, f(x).
bool IsMathName(const MathNode& node);

// Returns whether the node defines a name: x = 5, x ∈ S.
bool IsDefinition(const MathNode& node);

// Rewrites a > b as b < a and a ≥ b as b ≤ a. Other relations are unchanged.
MathNode Ascending(const MathNode& relation);

// Returns whether the node is ∞ or -∞.
bool IsInfinite(const MathNode& node);

}  // namespace buttress
