#include "coordinator/schedule/collapse_monitor.h"

#include <algorithm>
#include <utility>

namespace buttress {
namespace {

void Subtract(CollapseClass collapse, CollapseCounts& counts) {
  --counts.groups;
  --(counts.*kCollapseClasses[static_cast<std::size_t>(collapse)].count);
}

}  // namespace

CollapseMonitor::CollapseMonitor(std::map<std::string, CollapseCounts> by_source,
                                 std::map<std::string, RecentDifficulty> difficulty,
                                 std::optional<double> acr_ema, RecentCollapse recent)
    : by_source_(std::move(by_source)),
      difficulty_(std::move(difficulty)),
      acr_ema_(acr_ema),
      recent_(std::move(recent)) {}

const CollapseCounts& CollapseMonitor::Count(const AcceptedGroup& group) {
  const GroupTrials trials = group.trials();
  if (trials.own.scored > 0) difficulty_[group.head->source()].Add(group.id(), trials);
  CollapseCounts& counts = by_source_[group.head->source()];
  counts.Add(ClassOf(*group.head));
  return counts;
}

const CollapseCounts& CollapseMonitor::Uncount(const AcceptedGroup& group) {
  RecentDifficulty& difficulty = difficulty_[group.head->source()];
  difficulty.Remove(group.id());
  if (difficulty.groups() == 0) difficulty_.erase(group.head->source());
  CollapseCounts& counts = by_source_[group.head->source()];
  Subtract(ClassOf(*group.head), counts);
  return counts;
}

// The mean, over the groups that ACR counts, of the probability that the group is constant, by the
// difficulty of its source; 0 without such groups.
double CollapseMonitor::ExpectedRate(std::span<const AcceptedGroup* const> groups) const {
  std::map<std::string, Difficulty> difficulty;
  double sum = 0;
  std::int64_t comparable = 0;
  for (const AcceptedGroup* group : groups) {
    if (ClassOf(*group->head) == CollapseClass::kUnscorable) continue;
    const std::string& source = group->head->source();
    if (!difficulty.contains(source)) difficulty.emplace(source, difficulty_.at(source).Fit());
    const GroupTrials trials = group->trials();
    sum +=
        difficulty.at(source).Constant(trials.before, static_cast<std::int64_t>(trials.own.scored));
    ++comparable;
  }
  return comparable == 0 ? 0.0 : sum / static_cast<double>(comparable);
}

void CollapseMonitor::Refill(std::uint64_t step, const v1::GroupHead& group,
                             CollapseSnapshot& snapshot) {
  recent_.Add(step, group.source(), ClassOf(group));
  snapshot.step.Add(ClassOf(group));
  auto& sources = snapshot.sources;
  auto at = std::ranges::lower_bound(sources, group.source(), {}, &SourceCollapse::source);
  if (at == sources.end() || at->source != group.source())
    at = sources.insert(at, SourceCollapse{group.source(), {}, {}});
  at->step.Add(ClassOf(group));
}

CollapseSnapshot CollapseMonitor::Observe(std::uint64_t step,
                                          std::span<const AcceptedGroup* const> groups) {
  CollapseSnapshot snapshot;
  for (const AcceptedGroup* group : groups) {
    snapshot.step.Add(ClassOf(*group->head));
    recent_.Add(step, group->head->source(), ClassOf(*group->head));
  }
  snapshot.sources = recent_.At(step);
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
