// Collapse counts in the JSON that commands print.
#pragma once

#include <nlohmann/json.hpp>

#include "lib/experience/collapse.h"

namespace buttress {

// {"groups", "acr", "all_correct", "all_wrong", "other_constant", "mixed", "unscorable"}.
nlohmann::ordered_json CountsJson(const CollapseCounts& counts);

}  // namespace buttress
