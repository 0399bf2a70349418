// Lines of a dump as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace buttress {

// Parses JSON and reads the NaN and Infinity that Python writes as null. The result is discarded if
// the line is not JSON.
nlohmann::json ParseLine(std::string_view line);

// Says why ParseLine gives no object for a line, and what is there: "it breaks off after: ...outp".
std::string WhyNoObject(std::string_view line);

}  // namespace buttress
