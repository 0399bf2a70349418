#include "lib/rl/collapse/sources.h"

#include <algorithm>
#include <map>
#include <vector>

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

CollapseCounts SourceWindow::Total() const {
  CollapseCounts total;
  for (const auto& [step, sources] : recent_) {
    for (const auto& [source, counts] : sources) total.Add(counts);
  }
  return total;
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

double SourceMeasurements::acr() const {
  return collapse.constant() + collapse.mixed > 0 ? collapse.acr()
                                                  : std::numeric_limits<double>::quiet_NaN();
}

void SourceMeasurements::Add(const SourceMeasurements& other) {
  collapse.Add(other.collapse);
  scorable += other.scorable;
  raw_reward += other.raw_reward;
  correct += other.correct;
  judged += other.judged;
  virtual_groups += other.virtual_groups;
}

std::vector<SourceMeasurements> ReportedSources(const std::vector<SourceMeasurements>& sources,
                                                SourceNames& names) {
  std::vector<const SourceMeasurements*> ordered;
  for (const SourceMeasurements& source : sources) ordered.push_back(&source);
  std::ranges::stable_sort(ordered, std::ranges::greater(),
                           [](const auto* source) { return source->collapse.groups; });
  std::map<std::string, SourceMeasurements> by_name;
  for (const SourceMeasurements* source : ordered) {
    const std::string name = names.Of(source->source);
    if (name == source->source && !by_name.contains(name)) {
      by_name[name] = *source;
    } else {
      by_name[name].source = name;
      by_name[name].Add(*source);
    }
  }
  std::vector<SourceMeasurements> reported;
  for (auto& [name, source] : by_name) reported.push_back(std::move(source));
  return reported;
}

}  // namespace buttress
