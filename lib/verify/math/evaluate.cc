#include "lib/verify/math/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace buttress {
namespace {

constexpr std::size_t kMaxValueBits = 1 << 15;  // of numerator and denominator together
constexpr long kMaxFactorial = 3000;

std::size_t Bits(const Rational& value) {
  return mpz_sizeinbase(value.get_num_mpz_t(), 2) + mpz_sizeinbase(value.get_den_mpz_t(), 2);
}

std::optional<Rational> Bounded(Rational value) {
  if (Bits(value) > kMaxValueBits) return std::nullopt;
  return value;
}

// Returns the value as a long if it is an integer in [low, high].
std::optional<long> SmallInteger(const std::optional<Rational>& value, long low, long high) {
  if (!value || value->get_den() != 1 || !value->get_num().fits_slong_p()) return std::nullopt;
  const long integer = value->get_num().get_si();
  if (integer < low || integer > high) return std::nullopt;
  return integer;
}

std::optional<Rational> Power(const std::optional<Rational>& base,
                              const std::optional<Rational>& exponent) {
  constexpr auto kMost = static_cast<long>(kMaxValueBits);
  const std::optional<long> power = SmallInteger(exponent, -kMost, kMost);
  if (!base || !power || (*base == 0 && *power <= 0)) return std::nullopt;
  const auto times = static_cast<unsigned long>(*power < 0 ? -*power : *power);
  const bool unit = *base == 1 || *base == -1 || *base == 0;
  if (!unit && (Bits(*base) - 1) * times > 2 * kMaxValueBits) return std::nullopt;
  Rational result;
  mpz_pow_ui(result.get_num_mpz_t(), base->get_num_mpz_t(), times);
  mpz_pow_ui(result.get_den_mpz_t(), base->get_den_mpz_t(), times);
  return Bounded(*power < 0 ? Rational(1 / result) : result);
}

std::optional<Rational> Function(const MathNode& node) {
  const std::optional<Rational> argument = RationalValue(node.parts[0]);
  if (!argument) return std::nullopt;
  Rational result;
  if (node.text == "abs") return abs(*argument);
  if (node.text == "floor" || node.text == "ceil") {
    const auto round = node.text == "floor" ? mpz_fdiv_q : mpz_cdiv_q;
    round(result.get_num_mpz_t(), argument->get_num_mpz_t(), argument->get_den_mpz_t());
    return result;
  }
  const std::optional<long> n = SmallInteger(argument, 0, kMaxFactorial);
  if (!n) return std::nullopt;
  if (node.text == "factorial") {
    mpz_fac_ui(result.get_num_mpz_t(), static_cast<unsigned long>(*n));
    return Bounded(result);
  }
  if (node.text != "binom") return std::nullopt;
  const std::optional<long> k = SmallInteger(RationalValue(node.parts[1]), 0, kMaxFactorial);
  if (!k) return std::nullopt;
  mpz_bin_uiui(result.get_num_mpz_t(), static_cast<unsigned long>(*n),
               static_cast<unsigned long>(*k));
  return Bounded(result);
}

// Applies the operation of the node's kind.
std::optional<Rational> Fold(const MathNode& node) {
  std::optional<Rational> value = RationalValue(node.parts[0]);
  for (std::size_t i = 1; value && i < node.parts.size(); ++i) {
    const std::optional<Rational> part = RationalValue(node.parts[i]);
    if (!part) return std::nullopt;
    if (node.kind == MathKind::kSum) {
      *value += *part;
    } else if (node.kind == MathKind::kProduct) {
      *value *= *part;
    } else {
      if (*part == 0) return std::nullopt;
      *value /= *part;
    }
    value = Bounded(*value);
  }
  return value;
}

// Computes roots that are rational, such as square roots of squares.
std::optional<Rational> Root(const std::optional<Rational>& radicand,
                             const std::optional<Rational>& index) {
  const std::optional<long> n = SmallInteger(index, 2, 64);
  if (!radicand || !n || (*radicand < 0 && *n % 2 == 0)) return std::nullopt;
  const auto times = static_cast<unsigned long>(*n);
  Rational result;
  if (mpz_root(result.get_num_mpz_t(), radicand->get_num_mpz_t(), times) == 0) return std::nullopt;
  if (mpz_root(result.get_den_mpz_t(), radicand->get_den_mpz_t(), times) == 0) return std::nullopt;
  return result;
}

constexpr slong kMaxMagnitude = 100000;  // log2 of the largest value
constexpr slong kMaxAngle = 64;          // log2 of the largest argument of sin

using Value = std::optional<Ball>;

// Returns log2 of a bound of the magnitude that `get` (acb_get_mag, acb_get_mag_lower) computes;
// meaningless for 0.
double Log2Bound(const Ball& ball, void (*get)(mag_t, const acb_t)) {
  mag_t magnitude;
  mag_init(magnitude);
  get(magnitude, ball.get());
  const double log2 = mag_get_d_log2_approx(magnitude);
  mag_clear(magnitude);
  return log2;
}

double Log2Upper(const Ball& ball) { return Log2Bound(ball, acb_get_mag); }

Value Checked(Ball ball) {
  if (acb_is_finite(ball.get()) == 0) return std::nullopt;
  if (acb_is_zero(ball.get()) == 0 && Log2Upper(ball) > kMaxMagnitude) return std::nullopt;
  return ball;
}

Ball SymbolValue(std::string_view name, const MathPoint& point) {
  std::uint64_t hash = 1469598103934665603ULL + static_cast<std::uint64_t>(point.index) * 7919;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9ULL;
  const auto step = static_cast<long>((hash >> 40) % 4093) + 1;
  // All values are positive at every fourth point and negative at the next.
  const int sign = point.index % 4;
  const bool negative = sign == 1 || (sign > 1 && (hash >> 13) % 2 == 0);
  return Ball::Of(Rational(negative ? -step : step, 1024), point.bits);
}

Value Symbol(const MathNode& node, const MathPoint& point) {
  if (node.text == "infinity") return std::nullopt;
  Ball ball;
  if (node.text == "pi") {
    acb_const_pi(ball.get(), point.bits);
  } else if (node.text == "e") {
    arb_const_e(acb_realref(ball.get()), point.bits);
  } else if (node.text == "i") {
    acb_onei(ball.get());
  } else {
    return SymbolValue(node.text, point);
  }
  return ball;
}

Value Power(const Value& base, const Value& exponent, long bits) {
  if (!base || !exponent) return std::nullopt;
  if (acb_is_zero(exponent->get()) != 0) return std::nullopt;  // 0^0; otherwise RationalValue's
  if (acb_contains_zero(base->get()) != 0) {
    if (acb_is_zero(base->get()) == 0 || arb_is_positive(acb_realref(exponent->get())) == 0)
      return std::nullopt;
    return Ball();
  }
  const double growth =
      std::max(std::abs(Log2Upper(*base)), std::abs(Log2Bound(*base, acb_get_mag_lower))) + 4;
  if (Log2Upper(*exponent) > 20 || growth * std::exp2(Log2Upper(*exponent)) > kMaxMagnitude)
    return std::nullopt;
  Ball result;
  acb_pow(result.get(), base->get(), exponent->get(), bits);
  return Checked(std::move(result));
}

// Of negative numbers, odd roots are the real ones.
Value Root(const Value& radicand, const Value& index, long bits) {
  if (!radicand || !index) return std::nullopt;
  Ball result;
  if (acb_equal_si(index->get(), 2) != 0) {
    acb_sqrt(result.get(), radicand->get(), bits);
    return Checked(std::move(result));
  }
  const Ball one = Ball::Of(1, bits);
  Ball inverse;
  acb_div(inverse.get(), one.get(), index->get(), bits);
  Ball half;
  acb_mul_2exp_si(half.get(), index->get(), -1);
  const bool odd = acb_is_int(index->get()) != 0 && acb_is_int(half.get()) == 0;
  if (odd && acb_is_real(radicand->get()) != 0 &&
      arb_is_negative(acb_realref(radicand->get())) != 0) {
    Ball positive;
    acb_neg(positive.get(), radicand->get());
    Value root = Power(positive, inverse, bits);
    if (root) acb_neg(root->get(), root->get());
    return root;
  }
  return Power(radicand, inverse, bits);
}

struct NamedFunction {
  std::string_view name;
  void (*apply)(acb_t, const acb_t, slong);
  slong most;  // log2 of the largest argument
};

void Magnitude(acb_t result, const acb_t value, slong bits) {
  arb_zero(acb_imagref(result));
  acb_abs(acb_realref(result), value, bits);
}

void Factorial(acb_t result, const acb_t value, slong bits) {
  acb_add_ui(result, value, 1, bits);
  acb_gamma(result, result, bits);
}

// Undecided where the ball holds an integer.
template <void (*round)(arb_t, const arb_t, slong)>
void Rounded(acb_t result, const acb_t value, slong bits) {
  const bool real = acb_is_real(value) != 0;
  round(acb_realref(result), acb_realref(value), bits);
  arb_zero(acb_imagref(result));
  if (!real || arb_is_exact(acb_realref(result)) == 0) acb_indeterminate(result);
}

constexpr NamedFunction kFunctions[] = {{"sin", acb_sin, kMaxAngle},
                                        {"cos", acb_cos, kMaxAngle},
                                        {"tan", acb_tan, kMaxAngle},
                                        {"cot", acb_cot, kMaxAngle},
                                        {"sec", acb_sec, kMaxAngle},
                                        {"csc", acb_csc, kMaxAngle},
                                        {"arcsin", acb_asin, kMaxAngle},
                                        {"arccos", acb_acos, kMaxAngle},
                                        {"arctan", acb_atan, kMaxAngle},
                                        {"sinh", acb_sinh, 16},
                                        {"cosh", acb_cosh, 16},
                                        {"tanh", acb_tanh, 16},
                                        {"exp", acb_exp, 16},
                                        {"ln", acb_log, kMaxMagnitude},
                                        {"log", acb_log, kMaxMagnitude},
                                        {"lg", acb_log, kMaxMagnitude},
                                        {"abs", Magnitude, kMaxMagnitude},
                                        {"floor", Rounded<arb_floor>, kMaxAngle},
                                        {"ceil", Rounded<arb_ceil>, kMaxAngle},
                                        {"factorial", Factorial, 6},
                                        {"sqrt", acb_sqrt, kMaxMagnitude}};

// log without a base is natural; lg is decimal.
Value Function(const MathNode& node, const MathPoint& point) {
  if (const auto exact = RationalValue(node)) return Checked(Ball::Of(*exact, point.bits));
  const auto* function = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                      [&](const NamedFunction& f) { return f.name == node.text; });
  const Value argument = Evaluate(node.parts[0], point);
  if (function == std::end(kFunctions) || !argument) return std::nullopt;
  const bool zero = acb_is_zero(argument->get()) != 0;
  if (!zero && Log2Upper(*argument) > static_cast<double>(function->most)) return std::nullopt;
  Ball result;
  function->apply(result.get(), argument->get(), point.bits);
  if (node.parts.size() == 2 || node.text == "lg") {
    if (function->apply != acb_log) return std::nullopt;
    const Value base =
        node.text == "lg" ? Ball::Of(10, point.bits) : Evaluate(node.parts[1], point);
    if (!base) return std::nullopt;
    Ball divisor;
    acb_log(divisor.get(), base->get(), point.bits);
    acb_div(result.get(), result.get(), divisor.get(), point.bits);
  }
  return Checked(std::move(result));
}

Value Fold(const MathNode& node, const MathPoint& point) {
  Value value = Evaluate(node.parts[0], point);
  for (std::size_t i = 1; value && i < node.parts.size(); ++i) {
    const Value part = Evaluate(node.parts[i], point);
    if (!part) return std::nullopt;
    const auto apply = node.kind == MathKind::kSum       ? acb_add
                       : node.kind == MathKind::kProduct ? acb_mul
                                                         : acb_div;
    apply(value->get(), value->get(), part->get(), point.bits);
    value = Checked(std::move(*value));
  }
  return value;
}

}  // namespace

std::optional<Rational> RationalValue(const MathNode& node) {
  switch (node.kind) {
    case MathKind::kNumber:
      return node.value;
    case MathKind::kSum:
    case MathKind::kProduct:
    case MathKind::kQuotient:
      return Fold(node);
    case MathKind::kNegate: {
      std::optional<Rational> value = RationalValue(node.parts[0]);
      if (value) *value = -*value;
      return value;
    }
    case MathKind::kPercent: {
      std::optional<Rational> value = RationalValue(node.parts[0]);
      if (value) *value /= 100;
      return value;
    }
    case MathKind::kUnit:
      return RationalValue(node.parts[0]);
    case MathKind::kPower:
      return Power(RationalValue(node.parts[0]), RationalValue(node.parts[1]));
    case MathKind::kRoot:
      return Root(RationalValue(node.parts[0]), RationalValue(node.parts[1]));
    case MathKind::kFunction:
      return Function(node);
    default:
      return std::nullopt;
  }
}

std::optional<Ball> Evaluate(const MathNode& node, const MathPoint& point) {
  const bool dear = node.kind == MathKind::kFunction || node.kind == MathKind::kPower ||
                    node.kind == MathKind::kRoot;
  *point.steps_left -= (point.bits / 128) * (dear ? 8 : 1);
  if (*point.steps_left < 0) return std::nullopt;
  switch (node.kind) {
    case MathKind::kNumber:
      return Checked(Ball::Of(node.value, point.bits));
    case MathKind::kSymbol:
      return Symbol(node, point);
    case MathKind::kSum:
    case MathKind::kProduct:
    case MathKind::kQuotient:
      return Fold(node, point);
    case MathKind::kNegate: {
      Value value = Evaluate(node.parts[0], point);
      if (value) acb_neg(value->get(), value->get());
      return value;
    }
    case MathKind::kPower:
      if (const auto exact = RationalValue(node.parts[1]); exact && *exact == 0)
        return Ball::Of(1, point.bits);
      return Power(Evaluate(node.parts[0], point), Evaluate(node.parts[1], point), point.bits);
    case MathKind::kRoot:
      return Root(Evaluate(node.parts[0], point), Evaluate(node.parts[1], point), point.bits);
    case MathKind::kFunction:
      return Function(node, point);
    case MathKind::kUnit:
      return Evaluate(node.parts[0], point);
    case MathKind::kPercent:
    case MathKind::kDegree: {
      Value value = Evaluate(node.parts[0], point);
      if (!value) return value;
      Ball factor = Ball::Of(Rational(1, node.kind == MathKind::kPercent ? 100 : 180), point.bits);
      if (node.kind == MathKind::kDegree) {
        Ball pi;
        acb_const_pi(pi.get(), point.bits);
        acb_mul(factor.get(), factor.get(), pi.get(), point.bits);
      }
      acb_mul(value->get(), value->get(), factor.get(), point.bits);
      return value;
    }
    default:
      return std::nullopt;
  }
}

bool HasFreeSymbols(const MathNode& node) {
  if (node.kind == MathKind::kSymbol)
    return node.text != "pi" && node.text != "e" && node.text != "i" && node.text != "infinity";
  return std::any_of(node.parts.begin(), node.parts.end(), HasFreeSymbols);
}

}  // namespace buttress
