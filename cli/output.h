// What several commands print: JSON, and counts.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/experience/collapse.h"
#include "lib/rl/prompt_selection.h"

namespace buttress {

// JSON as one line with its line feed. Bytes that are not UTF-8 are replaced.
std::string JsonLine(const nlohmann::ordered_json& json);

void PrintJson(const nlohmann::ordered_json& json);

// {"groups", "acr", "all_correct", "all_wrong", "other_constant", "mixed", "unscorable"}.
nlohmann::ordered_json CountsJson(const CollapseCounts& counts);

// The collapse rate, or null where no group was comparable.
nlohmann::ordered_json AcrJson(const CollapseCounts& counts);

// The same as text with `decimals`, or "-".
std::string AcrText(const CollapseCounts& counts, int decimals);

// "3 easy, 12 over_long", without zeros; "none" where there are none.
template <class Counts>
std::string CountsText(const Counts& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  }
  return text.empty() ? "none" : text;
}

// Prompts that a run passed over, by source of prompts and reason. Without reasons and sources that
// have none; the name of run.data.prompts is empty.
using SkippedPrompts = std::map<std::string, std::map<std::string, std::uint64_t>>;

SkippedPrompts SkippedPromptsOf(const std::map<std::string, SkipCounts>& ledger);

// "prompts passed over: 3 easy, 12 over_long\n"; a line for each source, which names it. Empty
// without any.
std::string SkippedText(const SkippedPrompts& skipped);

}  // namespace buttress
