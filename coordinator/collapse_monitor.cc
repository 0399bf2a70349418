#include "coordinator/collapse_monitor.h"

#include <utility>

namespace buttress {
CollapseMonitor::CollapseMonitor(std::map<std::string, CollapseCounts> by_source,
                                 std::map<std::string, RecentDifficulty> difficulty,
                                 std::optional<double> acr_ema)
    : by_source_(std::move(by_source)), difficulty_(std::move(difficulty)), acr_ema_(acr_ema) {}

const CollapseCounts& CollapseMonitor::Count(const AcceptedRow& group) {
  const GroupTrials trials = group.trials();
  if (trials.own.scored > 0) difficulty_[group.source].Add(group.group_id, trials);
  CollapseCounts& counts = by_source_[group.source];
  counts.Add(group.collapse);
  return counts;
}

// The mean, over the groups that ACR counts, of the probability that the group is constant, by the
// difficulty of its source; 0 without such groups.
double CollapseMonitor::ExpectedRate(std::span<const AcceptedRow* const> groups) const {
  std::map<std::string, Difficulty> difficulty;
  double sum = 0;
  std::int64_t comparable = 0;
  for (const AcceptedRow* group : groups) {
    if (group->collapse == CollapseClass::kUnscorable) continue;
    auto of_source = difficulty.find(group->source);
    if (of_source == difficulty.end())
      of_source = difficulty.emplace(group->source, difficulty_.at(group->source).Fit()).first;
    const GroupTrials trials = group->trials();
    sum += of_source->second.Constant(trials.before, static_cast<std::int64_t>(trials.own.scored));
    ++comparable;
  }
  return comparable == 0 ? 0.0 : sum / static_cast<double>(comparable);
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
