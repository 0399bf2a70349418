// Reads numerals in LaTeX and plain text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/verify/math/syntax/lexer.h"

namespace buttress {

struct ReadNumber {
  std::string digits;  // without separators: "1234.50"
  Rational value;
  int decimals = -1;  // -1: no point, or a repeating decimal, which is exact
  std::size_t end = 0;
};

// Returns whether a numeral begins at `at`.
bool StartsNumber(std::string_view text, std::size_t at);

// Reads "1,234", "1{,}234", "1,\!234", "1\,234", "0.5", "0{,}5", "0.1\overline{6}" or "1.5e3".
// Returns kInvalidArgument above kMaxDigits.
Result<ReadNumber> ReadNumberAt(std::string_view text, std::size_t at, CommaReading commas);

}  // namespace buttress
