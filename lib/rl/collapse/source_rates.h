// Collapse rates by data source: what the gates of a step read where the prompts name sources.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/experience/collapse.h"

namespace buttress {

// The groups drawn for each of the last steps, by step and source.
using RecentCollapse = std::map<std::uint64_t, std::map<std::string, CollapseCounts>>;

// Keeps the groups drawn for the newest step and for the kRecentSteps steps before. Not
// thread-safe.
class SourceWindow {
 public:
  SourceWindow() = default;

  explicit SourceWindow(RecentCollapse recent) : recent_(std::move(recent)) {}

  // Adds a group drawn for `step`. A group of a step that is no longer kept does not count.
  void Add(std::uint64_t step, const std::string& source, CollapseClass collapse);

  // Returns the sources of the groups of `step`, in the order of their names.
  std::vector<SourceCollapse> At(std::uint64_t step) const;

  bool operator==(const SourceWindow&) const = default;

 private:
  RecentCollapse recent_;
};

// Comparable groups (constant or mixed) from which the rate of a source is its own; with fewer, its
// groups read the rate of all groups. At a true rate of a half its standard error is then at most
// 0.18.
inline constexpr std::int64_t kGateGroups = 8;

// Returns the ACR of the groups of a source that were drawn for the step (StepRate), or for the
// kRecentSteps steps before (RecentRate). Nullopt where a gate reads the rate of all groups: there
// are fewer than kGateGroups comparable ones, or the prompts name no source. Pure.
std::optional<double> StepRate(const SourceCollapse& source);
std::optional<double> RecentRate(const SourceCollapse& source);

}  // namespace buttress
