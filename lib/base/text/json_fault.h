// Says why a text is no JSON object.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace buttress {

struct JsonFault {
  std::string what;               // "it breaks off"
  std::optional<std::size_t> at;  // where, from 0 up to the length of the text; nullopt: nowhere
};

// REQUIRES: the text is no JSON object, and not nested deeper than kMaxJsonDepth.
JsonFault FaultOfJson(std::string_view text);

// "not a JSON object: it breaks off", or "...: it has NaN, which JSON has not; write null".
// REQUIRES: as FaultOfJson.
std::string WhyNoJsonObject(std::string_view text);

}  // namespace buttress
