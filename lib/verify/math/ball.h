// A complex number as a ball of Arb: a midpoint, and a radius that includes every rounding error.
// Disjoint balls are proof of different numbers.
#pragma once

#include <acb.h>

#include "lib/verify/rational.h"

namespace buttress {

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

}  // namespace buttress
