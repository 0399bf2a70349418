#include "lib/verify/rational.h"

#include <absl/strings/ascii.h>

namespace buttress {
std::optional<Rational> ParseDecimal(std::string_view text) {
  if (text.size() > kMaxDigits) return std::nullopt;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::string digits;
  bool point = false;
  std::size_t decimals = 0;
  for (const char c : text) {
    if (absl::ascii_isdigit(c)) {
      digits.push_back(c);
      if (point) ++decimals;
    } else if (c == '.' && !point) {
      point = true;
    } else {
      return std::nullopt;
    }
  }
  if (digits.empty() || (point && decimals == 0)) return std::nullopt;
  mpz_class numerator(digits, 10);
  mpz_class denominator;
  mpz_ui_pow_ui(denominator.get_mpz_t(), 10, decimals);
  if (negative) numerator = -numerator;
  Rational value(numerator, denominator);
  value.canonicalize();
  return value;
}

std::string ToString(const Rational& value) { return value.get_str(); }

}  // namespace buttress
