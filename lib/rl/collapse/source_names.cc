#include "lib/rl/collapse/source_names.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace buttress {

std::string SourceNames::Of(const std::string& source) {
  if (own_.size() < kMaxSources) own_.insert(source);
  return own_.contains(source) ? source : kOtherSources;
}

std::map<std::string, CollapseCounts> ReportedSources(
    const std::map<std::string, CollapseCounts>& by_source, SourceNames& names) {
  std::vector<const std::pair<const std::string, CollapseCounts>*> ordered;
  for (const auto& entry : by_source) ordered.push_back(&entry);
  std::ranges::stable_sort(ordered, std::ranges::greater(),
                           [](const auto* entry) { return entry->second.groups; });
  std::map<std::string, CollapseCounts> reported;
  for (const auto* entry : ordered) reported[names.Of(entry->first)].Add(entry->second);
  return reported;
}

}  // namespace buttress
