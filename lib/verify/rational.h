// Exact numbers: GMP's rationals, and their conversion from and to text.
#pragma once

#include <gmpxx.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace buttress {

// Values are in lowest terms with a positive denominator. Division by zero ends the process, so
// callers must check the divisor.
using Rational = mpq_class;

inline constexpr std::size_t kMaxDigits = 1000;

// Parses "12", "-0.50", ".5" or "+3". Returns nullopt for every other text and above kMaxDigits
// characters.
std::optional<Rational> ParseDecimal(std::string_view text);

// Returns "12" or "-1/2".
std::string ToString(const Rational& value);

}  // namespace buttress
