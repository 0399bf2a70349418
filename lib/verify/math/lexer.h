// LaTeX and plain mathematics as one sequence of tokens. Linear in the text; LaTeX that only sets
// type (\left, \,, \displaystyle) is gone, and so are thousands separators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/verify/rational.h"

namespace buttress {

// What the comma of "1,234" or "3,14" is, outside brackets. A space behind it always makes it a
// separator.
enum class CommaReading {
  kThousands,  // of groups of three digits; else a separator
  kDecimal,
  kSeparator,
};

enum class MathTokenKind { kNumber, kSymbol, kWord, kCommand, kMark, kEnd };

struct MathToken {
  MathTokenKind kind = MathTokenKind::kEnd;
  std::string text;  // digits; name; word in lower case; "frac", "begin:pmatrix"; "+", "≤", "\\{"
  Rational value;    // of a number
  int decimals = -1;
  bool spaced = false;  // white space before it
};

// The last token is kEnd. kInvalidArgument names what is no mathematics.
Result<std::vector<MathToken>> LexMath(std::string_view text, CommaReading commas);

}  // namespace buttress
