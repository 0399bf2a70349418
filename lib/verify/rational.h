// Exact numbers: GMP's rationals, and the text that they are read from and written to.
#pragma once

#include <gmpxx.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace buttress {

// Always in lowest terms with a positive denominator. Division by zero ends the process: look
// before.
using Rational = mpq_class;

inline constexpr std::size_t kMaxDigits = 1000;

// "12", "-0.50", ".5", "+3"; nothing else, and no more than kMaxDigits characters.
std::optional<Rational> ParseDecimal(std::string_view text);

// "12", "-1/2".
std::string ToString(const Rational& value);

}  // namespace buttress
