// Says why a text is no JSON object.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// "not a JSON object: it breaks off", or "...: it has NaN, which JSON has not; write null".
// REQUIRES: the text is no JSON object, and not nested deeper than kMaxJsonDepth.
std::string WhyNoJsonObject(std::string_view text);

}  // namespace buttress
