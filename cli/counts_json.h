// Counts in the forms that commands print.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/experience/collapse.h"
#include "lib/rl/prompt_selection.h"

namespace buttress {

// {"groups", "acr", "all_correct", "all_wrong", "other_constant", "mixed", "unscorable"}.
nlohmann::ordered_json CountsJson(const CollapseCounts& counts);

// Prompts that a run passed over, by source of prompts and reason. Without reasons and sources that
// have none; the name of run.data.prompts is empty.
using SkippedPrompts = std::map<std::string, std::map<std::string, std::uint64_t>>;

SkippedPrompts SkippedPromptsOf(const std::map<std::string, SkipCounts>& ledger);

// "prompts passed over: 3 easy, 12 over_long\n"; a line for each source, which names it. Empty
// without any.
std::string SkippedText(const SkippedPrompts& skipped);

}  // namespace buttress
