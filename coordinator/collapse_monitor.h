// Advantage collapse of the run, in integers: every accepted group once, by source; and what the
// gates of a step see.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "lib/ledger/rows.h"
#include "lib/rl/acr.h"

namespace buttress {

// Not thread-safe.
class CollapseMonitor {
 public:
  CollapseMonitor() = default;
  CollapseMonitor(std::map<std::string, CollapseCounts> by_source, std::optional<double> acr_ema);

  // Counts an accepted group; returns the counts of its source.
  const CollapseCounts& Count(const std::string& source, CollapseClass collapse);

  // Snapshot of a step's groups; takes their rate into the moving average, so it is called once per
  // planned step. A step without a constant or mixed group leaves the average as it is.
  CollapseSnapshot Observe(std::span<const AcceptedRow* const> groups);

  // All accepted groups.
  CollapseCounts total() const;

  const std::map<std::string, CollapseCounts>& by_source() const { return by_source_; }

  // Over the planned steps, decay kAcrEmaDecay; none before the first.
  std::optional<double> acr_ema() const { return acr_ema_; }

  bool operator==(const CollapseMonitor&) const = default;

 private:
  std::map<std::string, CollapseCounts> by_source_;
  std::optional<double> acr_ema_;
};

}  // namespace buttress
