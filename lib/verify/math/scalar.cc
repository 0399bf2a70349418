// Compares two values: numbers and expressions with free symbols.
#include <algorithm>
#include <optional>
#include <utility>

#include "lib/verify/math/equal.h"
#include "lib/verify/math/evaluate.h"
#include "lib/verify/math/words.h"

namespace buttress {
namespace {

constexpr long kFirstBits = 128;
constexpr long kLastBits = 768;
constexpr int kPoints = 6;        // points at which the values must agree
constexpr int kFewestPoints = 3;  // enough for an expression that is real at few points
constexpr int kMaxPoints = 24;    // points that are tried

bool Wraps(const MathNode& node) {
  return node.kind == MathKind::kUnit || node.kind == MathKind::kPercent ||
         node.kind == MathKind::kDegree;
}

// Returns the digits after the point of a decimal with or without a sign; -1 for other nodes.
int Decimals(const MathNode& node) {
  const MathNode& number = node.kind == MathKind::kNegate ? node.parts[0] : node;
  return number.kind == MathKind::kNumber && number.decimals > 0 ? number.decimals : -1;
}

Rational HalfUnit(int decimals) {
  mpz_class ten;
  mpz_ui_pow_ui(ten.get_mpz_t(), 10, static_cast<unsigned long>(decimals));
  return Rational(1) / Rational(2 * ten);
}

// Returns whether a decimal with that many digits after the point has three significant digits. A
// coarser one says too little: 0.3 would be 1/3 and 0.1 would be 1/8.
bool IsPrecise(const Rational& decimal, int decimals) {
  return abs(decimal) >= 200 * HalfUnit(decimals);
}

// Returns whether `exact` rounds to `decimal` at its digits.
bool RoundsTo(const Rational& exact, const Rational& decimal, int decimals) {
  return IsPrecise(decimal, decimals) && abs(exact - decimal) <= HalfUnit(decimals);
}

Sameness CompareExact(const MathNode& given, const Rational& a, const MathNode& gold,
                      const Rational& b, const MathComparison& how) {
  if (a == b) return Sameness::kSame;
  if (!how.lenient()) return Sameness::kDifferent;
  const int decimals = Decimals(given);
  return FromBool(decimals > 0 && Decimals(gold) < 0 && RoundsTo(b, a, decimals));
}

// Compares a decimal with a value that is not rational.
Sameness CompareRounded(const Rational& decimal, int decimals, const MathNode& other,
                        MathComparison& how) {
  const std::optional<Ball> value = Evaluate(other, {0, kLastBits, &how.steps_left});
  if (!value) return Sameness::kUndecided;
  if (!IsPrecise(decimal, decimals) || acb_is_real(value->get()) == 0) return Sameness::kDifferent;
  Ball distance = Ball::Of(decimal, kLastBits);
  acb_sub(distance.get(), distance.get(), value->get(), kLastBits);
  arb_abs(acb_realref(distance.get()), acb_realref(distance.get()));
  const Ball half = Ball::Of(HalfUnit(decimals), kLastBits);
  return FromBool(arb_le(acb_realref(distance.get()), acb_realref(half.get())) != 0);
}

enum class AtPoint { kSame, kDifferent, kUnusable };

AtPoint CompareAt(const MathNode& given, const MathNode& gold, int index, bool real_only,
                  MathComparison& how) {
  for (const long bits : {kFirstBits, kLastBits}) {
    const std::optional<Ball> a = Evaluate(given, {index, bits, &how.steps_left});
    const std::optional<Ball> b = Evaluate(gold, {index, bits, &how.steps_left});
    if (!a || !b) return AtPoint::kUnusable;
    if (real_only && (acb_is_real(a->get()) == 0 || acb_is_real(b->get()) == 0))
      return AtPoint::kUnusable;
    if (acb_overlaps(a->get(), b->get()) == 0) return AtPoint::kDifferent;
    if (acb_rel_accuracy_bits(b->get()) < 32 && acb_contains_zero(b->get()) == 0)
      return AtPoint::kUnusable;
  }
  return AtPoint::kSame;
}

bool HoldsImaginaryUnit(const MathNode& node) {
  if (node.kind == MathKind::kSymbol) return node.text == "i";
  for (const MathNode& part : node.parts) {
    if (HoldsImaginaryUnit(part)) return true;
  }
  return false;
}

Sameness CompareAtPoints(const MathNode& given, const MathNode& gold, MathComparison& how) {
  const bool free = HasFreeSymbols(given) || HasFreeSymbols(gold);
  const bool real_only = free && !HoldsImaginaryUnit(given) && !HoldsImaginaryUnit(gold);
  const int needed = free ? kPoints : 1;
  int same = 0;
  for (int index = 0; index < (free ? kMaxPoints : 1) && same < needed; ++index) {
    const AtPoint at = CompareAt(given, gold, index, real_only, how);
    if (at == AtPoint::kDifferent) return Sameness::kDifferent;
    if (at == AtPoint::kSame) ++same;
  }
  if (same >= (free ? kFewestPoints : 1)) return Sameness::kSame;
  // A side with a value differs from a side without a value at every point. A response that takes
  // too much work has no value.
  const auto has_value = [](const MathNode& node) {
    std::int64_t steps = kMaxMathSteps;
    for (int index = 0; index < kMaxPoints; ++index) {
      if (Evaluate(node, {index, kFirstBits, &steps})) return true;
    }
    return false;
  };
  return has_value(gold) ? Sameness::kDifferent : Sameness::kUndecided;
}

// Compares values with different units: 350 cents and $3.50.
Sameness CompareSizes(const MathNode& given, const MathNode& gold, MathComparison& how) {
  const auto size = SizeOf(given.text);
  const auto other = SizeOf(gold.text);
  if (!how.lenient() || !size || !other || size->dimension != other->dimension)
    return Sameness::kDifferent;
  const MathNode factor = MakeNumber(size->To(*other));
  return CompareScalars(MakeNode(MathKind::kProduct, {given.parts[0], factor}), gold.parts[0], how);
}

Sameness CompareUnits(const MathNode& given, const MathNode& gold, MathComparison& how) {
  if (given.kind == gold.kind) {
    if (given.kind == MathKind::kUnit && given.text != gold.text)
      return CompareSizes(given, gold, how);
    return CompareScalars(given.parts[0], gold.parts[0], how);
  }
  if (!how.lenient()) return Sameness::kDifferent;
  if (Wraps(given) && Wraps(gold)) {
    const auto radians = [](const MathNode& node) {
      return node.kind == MathKind::kUnit && node.text == "radian";
    };
    const bool angles = (radians(given) && gold.kind == MathKind::kDegree) ||
                        (radians(gold) && given.kind == MathKind::kDegree);
    return angles ? CompareAtPoints(given, gold, how) : Sameness::kDifferent;
  }
  const bool in_gold = Wraps(gold);
  const MathNode& bare = in_gold ? gold.parts[0] : given.parts[0];
  const Sameness without =
      in_gold ? CompareScalars(given, bare, how) : CompareScalars(bare, gold, how);
  if (without != Sameness::kSame && given.kind == MathKind::kUnit && given.text == "cent" &&
      Decimals(gold) == 2)  // 0.75 is in dollars where cents are counted
    return CompareUnits(given, MakeNode(MathKind::kUnit, {gold}, "dollar"), how);
  if (without == Sameness::kSame || (in_gold ? gold : given).kind == MathKind::kUnit)
    return without;
  return CompareAtPoints(given, gold, how);  // 50% = 0.5
}

Sameness CompareBased(const MathNode& given, const MathNode& gold, MathComparison& how) {
  if (given.kind != gold.kind && !how.lenient()) return Sameness::kDifferent;
  const auto digits = [](const MathNode& node) {
    return node.kind == MathKind::kBased ? node.text : ToText(node);
  };
  if (given.kind == gold.kind &&
      CompareScalars(given.parts[0], gold.parts[0], how) != Sameness::kSame)
    return Sameness::kDifferent;
  return FromBool(digits(given) == digits(gold));
}

}  // namespace

Sameness CompareScalars(const MathNode& given, const MathNode& gold, MathComparison& how) {
  if (Wraps(given) || Wraps(gold)) return CompareUnits(given, gold, how);
  const bool negated = given.kind == MathKind::kNegate && gold.kind == MathKind::kNegate;
  if (negated && (Contains(given, MathKind::kBased) || Contains(gold, MathKind::kBased)))
    return CompareScalars(given.parts[0], gold.parts[0], how);
  if (given.kind == MathKind::kBased || gold.kind == MathKind::kBased)
    return CompareBased(given, gold, how);
  const std::optional<Rational> a = RationalValue(given);
  const std::optional<Rational> b = RationalValue(gold);
  if (a && b) return CompareExact(given, *a, gold, *b, how);
  if (ToText(given) == ToText(gold)) return Sameness::kSame;
  if (given.kind == MathKind::kText || gold.kind == MathKind::kText) return Sameness::kDifferent;
  if (IsInfinite(given) || IsInfinite(gold)) return Sameness::kDifferent;
  if (how.lenient() && a && Decimals(given) > 0 && !HasFreeSymbols(gold))
    return CompareRounded(*a, Decimals(given), gold, how);
  // An exact answer is not the decimal that the reference has: 5/11 is not 0.5.
  if (how.lenient() && b && Decimals(gold) > 0 && !HasFreeSymbols(given))
    return Sameness::kDifferent;
  return CompareAtPoints(given, gold, how);
}

bool IsNear(const MathNode& exact, const MathNode& decimal, MathComparison& how) {
  const MathNode& number = Wraps(decimal) ? decimal.parts[0] : decimal;
  const std::optional<Rational> near = RationalValue(number);
  const std::optional<Ball> value =
      Evaluate(Wraps(exact) ? exact.parts[0] : exact, {0, kFirstBits, &how.steps_left});
  if (!near || !value || HasFreeSymbols(exact)) return true;
  Ball above = *value;  // how far the value is from zero beyond the decimal
  if (*near < 0) acb_neg(above.get(), above.get());
  const Ball magnitude = Ball::Of(abs(*near), kFirstBits);
  acb_sub(above.get(), above.get(), magnitude.get(), kFirstBits);
  const bool plain = number.kind == MathKind::kNumber || number.kind == MathKind::kNegate;
  const Rational half = plain ? HalfUnit(std::max(Decimals(number), 0)) : Rational(0);
  const Ball rounded_up = Ball::Of(-half, kFirstBits);
  const Ball cut_off = Ball::Of(2 * half, kFirstBits);
  return acb_is_real(above.get()) != 0 &&
         arb_ge(acb_realref(above.get()), acb_realref(rounded_up.get())) != 0 &&
         arb_le(acb_realref(above.get()), acb_realref(cut_off.get())) != 0;
}

Sameness CompareMultiples(const MathNode& given, const MathNode& gold, int& sign,
                          MathComparison& how) {
  sign = 0;
  for (int index = 0; index < kPoints; ++index) {
    const std::optional<Ball> a = Evaluate(given, {index, kLastBits, &how.steps_left});
    const std::optional<Ball> b = Evaluate(gold, {index, kLastBits, &how.steps_left});
    const std::optional<Ball> a0 = Evaluate(given, {kMaxPoints, kLastBits, &how.steps_left});
    const std::optional<Ball> b0 = Evaluate(gold, {kMaxPoints, kLastBits, &how.steps_left});
    if (!a || !b || !a0 || !b0) return Sameness::kDifferent;
    if (acb_contains_zero(a0->get()) != 0 || acb_contains_zero(b0->get()) != 0)
      return Sameness::kDifferent;
    Ball left;
    Ball right;
    acb_mul(left.get(), a->get(), b0->get(), kLastBits);
    acb_mul(right.get(), b->get(), a0->get(), kLastBits);
    if (acb_overlaps(left.get(), right.get()) == 0) return Sameness::kDifferent;
    acb_mul(left.get(), a0->get(), b0->get(), kLastBits);
    sign = arb_is_positive(acb_realref(left.get())) != 0 ? 1 : -1;
  }
  return Sameness::kSame;
}

}  // namespace buttress
