// Parses an answer by recursive descent over its tokens, in time linear in the text and with
// bounded depth. The .cc files state the grammar.
#pragma once

#include <string_view>

#include "lib/base/report/status.h"
#include "lib/verify/math/syntax/lexer.h"
#include "lib/verify/math/syntax/node.h"

namespace buttress {

// Returns kInvalidArgument with the part that is not mathematics or the limit that is exceeded.
Result<MathNode> ParseMath(std::string_view text, CommaReading commas);

}  // namespace buttress
