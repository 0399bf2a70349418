// The values that a text in prose names, from which answer.cc takes the one that the text states.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/verify/math/syntax/lexer.h"

namespace buttress {

struct ProseValue {
  std::string_view span;  // in the text; assertion.h reads the sentence around it
  std::string text;       // the value to parse; empty: the span
  bool list = false;      // several values, of which equal ones count once
};

// Returns the last `most` values of the text, the last one first:
//
//   5   1,234.5   3/4   7 out of 10   $5   8:45      numbers (statement.h)
//   350 cents   2 hours and 30 minutes               with the units of one dimension
//   twelve   negative 5   two thirds   two and a half
//   4 to 3                                           where the sentence speaks of a ratio
//   June 5   5 June
//   2, 3 and 5   $x = 1$ or $x = 4$                  a list, before its members
//
// All but plain numbers are looked for at the end of the text (4 KiB). Linear in the text.
std::vector<ProseValue> ValuesOf(std::string_view text, CommaReading commas, std::size_t most);

}  // namespace buttress
