// Answers that no grammar of expressions reads: choices with a text behind the letter, numerals
// with letters for digits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/verify/math/node.h"

namespace buttress {

// "(C) 12", "\textbf{(C)}\ 12", "C: 12", "C. 12", "Option C", "C)": A to J.
struct LabelledChoice {
  char letter;
  std::string text;  // behind the letter; may be empty
};

std::optional<LabelledChoice> ReadChoice(std::string_view answer);

// "A3F_{16}", "\text{2E}_{16}": at least one letter, and a base above every digit, 36 at most.
std::optional<MathNode> ReadBasedNumeral(std::string_view answer);

// "1 234 567".
std::optional<MathNode> ReadSpacedNumber(std::string_view answer);

}  // namespace buttress
