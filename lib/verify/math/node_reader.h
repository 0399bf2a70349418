// Reads the text of an answer: an expression, a choice, a numeral with letters as digits, or a
// number with blanks between thousands.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/verify/math/syntax/lexer.h"
#include "lib/verify/math/syntax/node.h"

namespace buttress {

// A choice, A to J, with the text behind its letter: "(C) 12", "\\textbf{(C)}\\ 12", "C: 12",
// "C. 12", "Option C", "C)". A bare "C" is a symbol.
struct LabelledChoice {
  char letter;
  std::string text;  // may be empty
};

std::optional<LabelledChoice> ReadChoice(std::string_view answer);

// Returns kInvalidArgument with the part that is not mathematics or the limit that is exceeded.
Result<MathNode> ReadNode(std::string_view text, CommaReading commas);

// Returns a text node for an answer that no grammar reads. It equals answers with the same text.
MathNode AsText(std::string_view source);

}  // namespace buttress
