#include "lib/rl/collapse/collapse_metrics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/experience/group_offsets.h"
#include "lib/rl/statistics.h"

namespace buttress {
namespace {

// The sum of `mass` that a constant group counts in. `rewards` and `lengths` are the group's;
// completions without trained tokens do not matter.
double& SourceOf(std::span<const double> rewards, std::span<const std::int32_t> lengths,
                 const VirtualDecision& decision, GradientMass& mass) {
  if (decision.injected) return mass.virtual_samples;
  const double* common = nullptr;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (lengths[i] == 0) continue;
    if (common != nullptr && rewards[i] != *common) return mass.shaping;
    common = &rewards[i];
  }
  return mass.estimator;
}

}  // namespace

Trials TrialsOf(std::span<const double> raw_rewards, std::span<const Outcome> outcomes) {
  Trials trials;
  for (std::size_t i = 0; i < raw_rewards.size(); ++i) {
    if (!IsScorable(raw_rewards[i], outcomes, i)) continue;
    ++trials.scored;
    trials.correct +=
        (outcomes.empty() ? EqualRewards(raw_rewards[i], 1) : outcomes[i] == Outcome::kCorrect) ? 1
                                                                                                : 0;
  }
  return trials;
}

bool IsNearCollapse(std::span<const double> raw_rewards, std::span<const Outcome> outcomes) {
  // Of three rewards of which at most one differs from the rest, two are equal to that rest.
  double first[3] = {};
  std::int64_t scorable = 0;
  for (std::size_t i = 0; i < raw_rewards.size() && scorable < 3; ++i) {
    if (IsScorable(raw_rewards[i], outcomes, i)) first[scorable++] = raw_rewards[i];
  }
  if (scorable < 3) return false;
  const double common =
      EqualRewards(first[0], first[1]) || EqualRewards(first[0], first[2]) ? first[0] : first[1];
  std::int64_t apart = 0;
  for (std::size_t i = 0; i < raw_rewards.size(); ++i) {
    apart +=
        IsScorable(raw_rewards[i], outcomes, i) && !EqualRewards(raw_rewards[i], common) ? 1 : 0;
  }
  return apart == 1;
}

std::vector<CollapseClass> ClassifyGroups(std::span<const double> raw_rewards,
                                          std::span<const Outcome> outcomes,
                                          std::span<const std::int32_t> group_offsets) {
  std::vector<CollapseClass> classes;
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    classes.push_back(ClassifyGroup(GroupRows(raw_rewards, group_offsets, k),
                                    GroupRows(outcomes, group_offsets, k)));
  }
  return classes;
}

double VarianceThresholdAcr(std::span<const double> raw_rewards, std::span<const Outcome> outcomes,
                            std::span<const std::int32_t> group_offsets,
                            double variance_threshold) {
  std::int64_t groups = 0;
  std::int64_t collapsed = 0;
  std::vector<double> scorable;
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    scorable.clear();
    for (auto row = group_offsets[k]; row < group_offsets[k + 1]; ++row) {
      const auto i = static_cast<std::size_t>(row);
      if (IsScorable(raw_rewards[i], outcomes, i)) scorable.push_back(raw_rewards[i]);
    }
    if (scorable.size() < 2) continue;
    ++groups;
    collapsed += SampleVariance(scorable) < variance_threshold ? 1 : 0;
  }
  return groups == 0 ? 0.0 : static_cast<double>(collapsed) / static_cast<double>(groups);
}

CollapseSnapshot MakeCollapseSnapshot(std::span<const double> raw_rewards,
                                      std::span<const Outcome> outcomes,
                                      std::span<const std::int32_t> group_offsets,
                                      std::span<const PromptHistory> history) {
  CollapseSnapshot snapshot;
  std::vector<GroupTrials> comparable;
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto rewards = GroupRows(raw_rewards, group_offsets, k);
    const auto of_group = GroupRows(outcomes, group_offsets, k);
    const CollapseClass collapse = ClassifyGroup(rewards, of_group);
    snapshot.step.Add(collapse);
    if (collapse != CollapseClass::kUnscorable)
      comparable.push_back({TrialsOf(history[k]), TrialsOf(rewards, of_group)});
  }
  snapshot.cumulative = snapshot.step;
  snapshot.acr_ema = snapshot.step.acr();
  const Difficulty difficulty = Difficulty::Fit(comparable);
  for (const GroupTrials& group : comparable) {
    snapshot.expected_acr +=
        difficulty.Constant(group.before, static_cast<std::int64_t>(group.own.scored)) /
        static_cast<double>(comparable.size());
  }
  return snapshot;
}

double ExcessAcr(const CollapseSnapshot& snapshot) {
  return snapshot.step.acr() - snapshot.expected_acr;
}

ExpectedRate ExpectedAcr(const CollapseSnapshot& snapshot) {
  const auto comparable = [](const CollapseCounts& counts) {
    return counts.constant() + counts.mixed;
  };
  const auto recent = static_cast<std::int64_t>(RecentDifficulty::kGroups);
  return IntervalOf(snapshot.expected_acr, comparable(snapshot.step),
                    std::min(recent, comparable(snapshot.cumulative)));
}

double Acr100(std::span<const double> acr_by_step) {
  const auto steps = acr_by_step.first(std::min(kAcr100Steps, acr_by_step.size()));
  return steps.empty() ? 0.0 : Mean(steps);
}

double SigmaAcr(std::span<const double> acr_by_step) {
  const auto steps = acr_by_step.last(std::min(kSigmaSteps, acr_by_step.size()));
  return steps.size() < 2 ? 0.0 : std::sqrt(SampleVariance(steps));
}

GradientMass PolicyGradientMass(std::span<const double> advantages, std::span<const double> rewards,
                                std::span<const double> token_weights,
                                std::span<const std::int32_t> lengths,
                                std::span<const std::int32_t> group_offsets,
                                std::span<const CollapseClass> classes,
                                std::span<const VirtualDecision> decisions) {
  GradientMass mass;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const auto begin = static_cast<std::size_t>(group_offsets[k]);
    const std::size_t count = static_cast<std::size_t>(group_offsets[k + 1]) - begin;
    double of_group = 0;
    for (std::size_t i = begin; i < begin + count; ++i)
      of_group += std::abs(advantages[i]) * token_weights[i] * lengths[i];
    mass.all += of_group;
    if (of_group == 0 || !IsConstant(classes[k])) continue;
    SourceOf(rewards.subspan(begin, count), lengths.subspan(begin, count), decisions[k], mass) +=
        of_group;
  }
  return mass;
}

}  // namespace buttress
