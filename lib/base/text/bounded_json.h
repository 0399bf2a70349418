// Parses JSON from outside the process. Texts that are too large, or nested too deeply for
// nlohmann::json to copy, are refused before they are parsed.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

inline constexpr std::size_t kMaxJsonBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxReferenceBytes = std::size_t{64} << 20;  // answers that hold tests
inline constexpr int kMaxJsonDepth = 64;

// Returns whether brackets outside strings are nested deeper than `max_depth`. Of a text that is
// not JSON the answer is arbitrary. Linear in the text, without recursion.
bool NestedDeeper(std::string_view text, int max_depth = kMaxJsonDepth);

// Returns kInvalidArgument ("not JSON") for a text that does not parse, or with the bound that the
// text exceeds.
Result<nlohmann::json> ParseBoundedJson(std::string_view text,
                                        std::size_t max_bytes = kMaxJsonBytes);

}  // namespace buttress
