// Recursive descent over the tokens of an answer; the grammar stands in the .cc files. Linear in
// the text, depth bounded.
#pragma once

#include <string_view>

#include "lib/base/status.h"
#include "lib/verify/math/lexer.h"
#include "lib/verify/math/node.h"

namespace buttress {

// kInvalidArgument says what is no mathematics, or what limit it breaks.
Result<MathNode> ParseMath(std::string_view text, CommaReading commas);

}  // namespace buttress
