#include "lib/ledger/plan_columns.h"

#include <algorithm>
#include <vector>

#include "lib/base/check.h"

namespace buttress {
namespace {

// A group without a scorable completion has no components, so zeros stand for them. If the data
// sources give rewards with different numbers of components, no [N, C] column exists; an estimator
// that reads components reports that it lacks them.
std::vector<double> Components(std::span<const AcceptedRow* const> groups) {
  std::size_t width = 0;
  for (const AcceptedRow* group : groups) {
    const std::size_t of_group = group->component_names.size();
    if (of_group != 0 && width != 0 && of_group != width) return {};
    width = std::max(width, of_group);
  }
  std::vector<double> components;
  for (const AcceptedRow* group : groups) {
    const std::size_t end = components.size() + group->completions.size() * width;
    components.insert(components.end(), group->components.begin(), group->components.end());
    components.resize(end, 0.0);
  }
  return components;
}

void AppendCompletion(const CompletionRow& completion, Plan& plan) {
  const bool scorable = completion.outcome != Outcome::kUnscorable;
  plan.outcomes.push_back(completion.outcome);
  plan.raw_rewards.push_back(completion.raw_reward);
  plan.rewards.push_back(completion.reward);
  plan.lengths.push_back(scorable ? completion.trained_tokens : 0);
  plan.total_lengths.push_back(completion.total_tokens);
  plan.truncated.push_back(completion.finish_reason == FinishReason::kLength);
}

}  // namespace

void AddDrawn(const AcceptedRow& group, DrawnTotals& drawn) {
  for (const CompletionRow& completion : group.completions) {
    ++drawn.completions;
    drawn.tokens += completion.total_tokens;
    if (completion.outcome == Outcome::kUnscorable) continue;
    ++drawn.scorable;
    drawn.raw_reward += completion.raw_reward;
  }
}

Plan MakePlan(const PlanRow& row, std::span<const AcceptedRow* const> groups) {
  Plan plan;
  plan.step = row.step;
  plan.collapse = row.collapse;
  plan.drawn = row.drawn;
  const std::vector<SourceCollapse>& sources = plan.collapse.sources;
  for (const AcceptedRow* group : groups) {
    for (const CompletionRow& completion : group->completions) AppendCompletion(completion, plan);
    plan.group_ids.push_back(group->group_id);
    plan.group_offsets.push_back(static_cast<std::int32_t>(plan.rows()));
    plan.prompt_lengths.push_back(group->prompt_tokens);
    plan.oldest_versions.push_back(group->versions.empty() ? PolicyVersion()
                                                           : group->versions.front());
    plan.history.push_back(group->history);
    plan.classes.push_back(group->collapse);
    if (sources.empty()) continue;
    const auto source =
        std::ranges::lower_bound(sources, group->source, {}, &SourceCollapse::source);
    BUTTRESS_CHECK(source != sources.end() && source->source == group->source,
                   "the snapshot of a step counts the sources of its groups");
    plan.sources.push_back(static_cast<std::int32_t>(source - sources.begin()));
  }
  plan.components = Components(groups);
  return plan;
}

}  // namespace buttress
