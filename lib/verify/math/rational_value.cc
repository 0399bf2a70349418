#include "lib/verify/math/rational_value.h"

namespace buttress {
namespace {

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

}  // namespace buttress
