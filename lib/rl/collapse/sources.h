// Data sources of prompts: their collapse rates, which gates read, their measurements, and the
// names under which they are reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
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

  // Returns the counts of all groups that are kept.
  CollapseCounts Total() const;

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

inline constexpr std::size_t kMaxSources = 32;
inline constexpr const char* kOtherSources = "other";

// The first kMaxSources sources that are asked for have their own names, all others together
// kOtherSources. Not thread-safe.
class SourceNames {
 public:
  std::string Of(const std::string& source);

 private:
  std::set<std::string> own_;
};

// Adds up the counts of each reported name. Sources without a name yet are asked for in the order
// of their groups, most first.
std::map<std::string, CollapseCounts> ReportedSources(
    const std::map<std::string, CollapseCounts>& by_source, SourceNames& names);

// The groups of one data source in a step. Sums, so that sources add up.
struct SourceMeasurements {
  std::string source;
  CollapseCounts collapse;    // of its groups drawn for the step
  double scorable = 0;        // completions of the batch
  double raw_reward = 0;      // sum over them
  double correct = 0;         // of them
  double judged = 0;          // of them: correct or wrong
  double virtual_groups = 0;  // groups with virtual samples
  // Of the gate of the estimator for this source; NaN where its groups read the gate of all groups.
  double gate_rate = std::numeric_limits<double>::quiet_NaN();
  double gate_threshold = std::numeric_limits<double>::quiet_NaN();
  double gate_open = std::numeric_limits<double>::quiet_NaN();

  // NaN without a group or a completion to take it over.
  double acr() const;

  double raw_reward_mean() const { return raw_reward / scorable; }

  double accuracy() const { return correct / judged; }

  // Adds up the sums.
  void Add(const SourceMeasurements& other);
};

// Adds up the sources that have one reported name, in the order of the names. What
// has no name of its own has no gate either.
std::vector<SourceMeasurements> ReportedSources(const std::vector<SourceMeasurements>& sources,
                                                SourceNames& names);

}  // namespace buttress
