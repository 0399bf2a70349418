#include "cli/counts_json.h"

#include <fmt/core.h>

namespace buttress {

nlohmann::ordered_json CountsJson(const CollapseCounts& counts) {
  return {{"groups", counts.groups},
          {"acr", counts.acr()},
          {"all_correct", counts.all_correct},
          {"all_wrong", counts.all_wrong},
          {"other_constant", counts.other_constant},
          {"mixed", counts.mixed},
          {"unscorable", counts.unscorable}};
}

SkippedPrompts SkippedPromptsOf(const std::map<std::string, SkipCounts>& ledger) {
  SkippedPrompts skipped;
  for (const auto& [source, counts] : ledger) {
    for (std::size_t i = 0; i < kSkipReasons; ++i) {
      const std::string reason(SkipReasonName(static_cast<SkipReason>(i)));
      if (counts[i] > 0) skipped[source][reason] = static_cast<std::uint64_t>(counts[i]);
    }
  }
  return skipped;
}

std::string SkippedText(const SkippedPrompts& skipped) {
  std::string text;
  for (const auto& [source, reasons] : skipped) {
    std::string counts;
    for (const auto& [reason, prompts] : reasons)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", prompts, reason);
    text += source.empty() ? fmt::format("prompts passed over: {}\n", counts)
                           : fmt::format("prompts of {} passed over: {}\n", source, counts);
  }
  return text;
}

}  // namespace buttress
