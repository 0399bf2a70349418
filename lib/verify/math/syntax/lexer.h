// Converts LaTeX and plain mathematics to tokens, in time linear in the text. Typesetting commands
// (\left, \,, \displaystyle) and thousands separators are dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/verify/rational.h"

namespace buttress {

// How the comma in "1,234" or "3,14" is read outside brackets. A comma before a space is always a
// separator.
enum class CommaReading {
  kThousands,  // between groups of three digits; else a separator
  kDecimal,
  kSeparator,
};

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
