// Evaluates trees: exactly over the rationals, and in ball arithmetic.
#pragma once

#include <acb.h>

#include <cstdint>
#include <optional>

#include "lib/verify/math/syntax/node.h"

namespace buttress {

// A complex number as a ball of Arb: a midpoint, and a radius that includes every rounding error.
// Disjoint balls are proof of different numbers.
class Ball {
 public:
  Ball() { acb_init(value_); }

  Ball(const Ball& other) : Ball() { acb_set(value_, other.value_); }

  Ball(Ball&& other) noexcept : Ball() { acb_swap(value_, other.value_); }

  Ball& operator=(const Ball& other) {
    acb_set(value_, other.value_);
    return *this;
  }

  Ball& operator=(Ball&& other) noexcept {
    acb_swap(value_, other.value_);
    return *this;
  }

  ~Ball() { acb_clear(value_); }

  static Ball Of(const Rational& value, long bits) {
    Ball ball;
    fmpq_t exact;
    fmpq_init(exact);
    fmpq_set_mpq(exact, value.get_mpq_t());
    acb_set_fmpq(ball.value_, exact, bits);
    fmpq_clear(exact);
    return ball;
  }

  acb_ptr get() { return value_; }

  acb_srcptr get() const { return value_; }

 private:
  acb_t value_;
};

// Returns the exact value, or nullopt if the node is not rational by the four operations, integer
// powers, factorials and binomials, if numerator and denominator have more than 2^15 bits together,
// or if it divides by zero. Units are ignored.
std::optional<Rational> RationalValue(const MathNode& node);

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
