// Reads answers outside the grammar of expressions: choices with a text after the letter, and
// numerals with letters as digits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/verify/math/syntax/node.h"

namespace buttress {

// A choice, A to J: "(C) 12", "\textbf{(C)}\ 12", "C: 12", "C. 12", "Option C", "C)".
struct LabelledChoice {
  char letter;
  std::string text;  // after the letter; may be empty
};

std::optional<LabelledChoice> ReadChoice(std::string_view answer);

// Reads "A3F_{16}" or "\text{2E}_{16}": at least one letter, and a base above every digit and at
// most 36.
std::optional<MathNode> ReadBasedNumeral(std::string_view answer);

// Reads "1 234 567".
std::optional<MathNode> ReadSpacedNumber(std::string_view answer);

}  // namespace buttress
