#include "lib/rl/collapse/source_rates.h"

#include "lib/config/run_config.h"

namespace buttress {
namespace {

std::optional<double> RateOver(const SourceCollapse& source, const CollapseCounts& counts) {
  const bool named = !source.source.empty() && source.source != kDefaultSource;
  if (!named || counts.constant() + counts.mixed < kGateGroups) return std::nullopt;
  return counts.acr();
}

}  // namespace

void SourceWindow::Add(std::uint64_t step, const std::string& source, CollapseClass collapse) {
  if (!recent_.empty() && step + kRecentSteps < recent_.rbegin()->first) return;
  recent_[step][source].Add(collapse);
  while (recent_.begin()->first + kRecentSteps < recent_.rbegin()->first)
    recent_.erase(recent_.begin());
}

std::vector<SourceCollapse> SourceWindow::At(std::uint64_t step) const {
  std::vector<SourceCollapse> sources;
  const auto own = recent_.find(step);
  if (own == recent_.end()) return sources;
  for (const auto& [source, counts] : own->second) {
    SourceCollapse& of_source = sources.emplace_back(SourceCollapse{source, counts, {}});
    for (auto before = recent_.begin(); before != own; ++before) {
      const auto found = before->second.find(source);
      if (found != before->second.end()) of_source.recent.Add(found->second);
    }
  }
  return sources;
}

std::optional<double> StepRate(const SourceCollapse& source) {
  return RateOver(source, source.step);
}

std::optional<double> RecentRate(const SourceCollapse& source) {
  return RateOver(source, source.recent);
}

}  // namespace buttress
