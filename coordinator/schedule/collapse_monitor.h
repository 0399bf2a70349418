// Counts the advantage collapse of the run in integers: every accepted group once, by source. Makes
// the snapshot that the gates of a step read.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "lib/ledger/rows.h"
#include "lib/rl/collapse/acr.h"
#include "lib/rl/collapse/difficulty.h"
#include "lib/rl/collapse/sources.h"

namespace buttress {

// Not thread-safe.
class CollapseMonitor {
 public:
  CollapseMonitor() = default;
  CollapseMonitor(std::map<std::string, CollapseCounts> by_source,
                  std::map<std::string, RecentDifficulty> difficulty, std::optional<double> acr_ema,
                  RecentCollapse recent);

  // Counts an accepted group and returns the counts of its source.
  const CollapseCounts& Count(const AcceptedGroup& group);

  // Takes back what Count has counted, and returns the counts of its source.
  const CollapseCounts& Uncount(const AcceptedGroup& group);

  // Returns the snapshot of the groups of `step`, and adds their rate to the moving average: called
  // once for each planned step, in order. A step without a constant or mixed group does not change
  // the average.
  CollapseSnapshot Observe(std::uint64_t step, std::span<const AcceptedGroup* const> groups);

  // Adds a group that takes the place of a dropped one to the snapshot of its step.
  void Refill(std::uint64_t step, const v1::GroupHead& group, CollapseSnapshot& snapshot);

  // Returns the counts of the groups drawn for the last steps, as SourceWindow keeps them.
  CollapseCounts recent() const { return recent_.Total(); }

  // All accepted groups.
  CollapseCounts total() const;

  const std::map<std::string, CollapseCounts>& by_source() const { return by_source_; }

  // Returns the moving average over the planned steps, with decay kAcrEmaDecay; nullopt before the
  // first.
  std::optional<double> acr_ema() const { return acr_ema_; }

  bool operator==(const CollapseMonitor&) const = default;

 private:
  double ExpectedRate(std::span<const AcceptedGroup* const> groups) const;

  std::map<std::string, CollapseCounts> by_source_;
  std::map<std::string, RecentDifficulty> difficulty_;  // by source
  std::optional<double> acr_ema_;
  SourceWindow recent_;
};

}  // namespace buttress
