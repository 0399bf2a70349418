#include "coordinator/collapse_monitor.h"

#include <algorithm>
#include <utility>

namespace buttress {
namespace {

// Returns the mean collapse probability, from each prompt's history, of the groups that ACR counts;
// 0 without such groups.
double ExpectedRate(std::span<const AcceptedRow* const> groups) {
  double sum = 0;
  std::int64_t classed = 0;
  for (const AcceptedRow* group : groups) {
    if (group->collapse == CollapseClass::kUnscorable) continue;
    const auto scorable = std::ranges::count_if(group->completions, [](const CompletionRow& row) {
      return row.outcome != Outcome::kUnscorable;
    });
    sum += ExpectedCollapse(group->history, scorable);
    ++classed;
  }
  return classed == 0 ? 0.0 : sum / static_cast<double>(classed);
}

}  // namespace

CollapseMonitor::CollapseMonitor(std::map<std::string, CollapseCounts> by_source,
                                 std::optional<double> acr_ema)
    : by_source_(std::move(by_source)), acr_ema_(acr_ema) {}

const CollapseCounts& CollapseMonitor::Count(const std::string& source, CollapseClass collapse) {
  CollapseCounts& counts = by_source_[source];
  counts.Add(collapse);
  return counts;
}

CollapseSnapshot CollapseMonitor::Observe(std::span<const AcceptedRow* const> groups) {
  CollapseSnapshot snapshot;
  for (const AcceptedRow* group : groups) snapshot.step.Add(group->collapse);
  snapshot.cumulative = total();
  snapshot.expected_acr = ExpectedRate(groups);
  const double acr = snapshot.step.acr();
  snapshot.acr_ema = acr_ema_.value_or(acr);
  if (snapshot.step.constant() + snapshot.step.mixed > 0) {
    acr_ema_ = acr_ema_ ? kAcrEmaDecay * *acr_ema_ + (1.0 - kAcrEmaDecay) * acr : acr;
  }
  return snapshot;
}

CollapseCounts CollapseMonitor::total() const {
  CollapseCounts sum;
  for (const auto& [source, counts] : by_source_) sum.Add(counts);
  return sum;
}

}  // namespace buttress
