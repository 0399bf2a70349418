// Converts LaTeX and plain mathematics to tokens, in time linear in the text. Typesetting commands
// (\left, \,, \displaystyle) and thousands separators are dropped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/sections/reward_config.h"
#include "lib/verify/rational.h"

namespace buttress {

// How the comma in "1,234" or "3,14" is read outside brackets. A comma before a space is always a
// separator.
enum class CommaReading {
  kThousands,  // between groups of three digits; else a separator
  kDecimal,    // a point between groups of three digits separates thousands
  kSeparator,
};

// Returns how commas are read where `mark` separates the decimals.
inline CommaReading CommasOf(DecimalMark mark) {
  return mark == DecimalMark::kComma ? CommaReading::kDecimal : CommaReading::kThousands;
}

// A numeral in a text.
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

enum class MathTokenKind { kNumber, kSymbol, kWord, kCommand, kMark, kEnd };

struct MathToken {
  MathTokenKind kind = MathTokenKind::kEnd;
  std::string text;  // digits; name; word in lower case; "frac", "begin:pmatrix"; "+", "≤", "\\{"
  Rational value;    // of a number
  int decimals = -1;
  bool spaced = false;  // white space precedes the token
};

// Returns the tokens; the last one is kEnd. Returns kInvalidArgument with the part of the text that
// is not mathematics.
Result<std::vector<MathToken>> LexMath(std::string_view text, CommaReading commas);

}  // namespace buttress
