// JSON from outside: nested deeper than nlohmann::json can copy, or large, it is refused before it
// is parsed.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

inline constexpr std::size_t kMaxJsonBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxReferenceBytes = std::size_t{64}
                                                  << 20;  // of a reference answer with tests
inline constexpr int kMaxJsonDepth = 64;

// kInvalidArgument: "no JSON", or which bound it breaks.
Result<nlohmann::json> ParseBoundedJson(std::string_view text,
                                        std::size_t max_bytes = kMaxJsonBytes);

}  // namespace buttress
