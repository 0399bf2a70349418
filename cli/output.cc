#include "cli/output.h"

namespace buttress {

std::string JsonLine(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void PrintJson(const nlohmann::ordered_json& json) { fmt::print("{}", JsonLine(json)); }

nlohmann::ordered_json CountsJson(const CollapseCounts& counts) {
  return {{"groups", counts.groups},
          {"acr", counts.acr()},
          {"all_correct", counts.all_correct},
          {"all_wrong", counts.all_wrong},
          {"other_constant", counts.other_constant},
          {"mixed", counts.mixed},
          {"unscorable", counts.unscorable}};
}

nlohmann::ordered_json AcrJson(const CollapseCounts& counts) {
  nlohmann::ordered_json acr;
  if (counts.constant() + counts.mixed > 0) acr = counts.acr();
  return acr;
}

std::string AcrText(const CollapseCounts& counts, int decimals) {
  return counts.constant() + counts.mixed > 0 ? fmt::format("{:.{}f}", counts.acr(), decimals)
                                              : "-";
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
    const std::string counts = CountsText(reasons);
    text += source.empty() ? fmt::format("prompts passed over: {}\n", counts)
                           : fmt::format("prompts of {} passed over: {}\n", source, counts);
  }
  return text;
}

}  // namespace buttress
