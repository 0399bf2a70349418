#include "lib/rl/trained_rows.h"

#include <algorithm>

#include "lib/experience/episodes.h"

namespace buttress {
namespace {

// A group without a scorable completion has no components, so zeros stand for them. If the data
// sources give rewards with different numbers of components, no [N, C] column exists; an estimator
// that reads components reports that it lacks them.
std::vector<double> Components(const Plan& plan) {
  int width = 0;
  for (const GroupHeadPtr& group : plan.groups) {
    const int of_group = group->component_names_size();
    if (of_group != 0 && width != 0 && of_group != width) return {};
    width = std::max(width, of_group);
  }
  std::vector<double> components;
  for (const GroupHeadPtr& group : plan.groups) {
    for (std::size_t i = 0; i < CompletionsOf(*group); ++i) {
      if (!IsRoot(*group, i)) continue;
      const std::size_t end = components.size() + static_cast<std::size_t>(width);
      const std::span<const double> own = ComponentsOf(*group, i);
      components.insert(components.end(), own.begin(), own.end());
      components.resize(end, 0.0);
    }
  }
  return components;
}

// Adds the rewards of the episodes and the lengths of the rows. The penalty is that of the longest
// branch.
void AddEpisodes(const v1::GroupHead& group, bool masked, const AssignmentOptions& options,
                 TrainedRows& rows) {
  const OverlongConfig& overlong = options.run.algorithm.overlong;
  const std::vector<std::int32_t> episodes = EpisodeOffsets(group);
  for (std::size_t e = 0; e + 1 < episodes.size(); ++e) {
    std::int32_t longest = 0;
    for (int i = episodes[e]; i < episodes[e + 1]; ++i) {
      const std::int32_t trained = group.trained_lengths(i);
      const bool filtered = overlong.filter && IsTruncated(group, i) && trained > 0;
      rows.overlong_filtered += filtered ? 1 : 0;
      rows.lengths.push_back(masked || filtered ? 0 : trained);
      longest = std::max(longest, group.lengths(i));
    }
    rows.rewards.push_back(
        group.rewards(episodes[e]) +
        OverlongPenalty(longest, options.overlong_length(), overlong.cache, overlong.penalty));
  }
}

// Fills what the estimator compares, by unit. Turns, whose lengths a plan does not have, count one
// token each.
void FillUnits(const Plan& plan, TrainedRows& rows) {
  AdvantageInput& input = rows.input;
  const CreditUnits& units = rows.units;
  const bool turns = !units.turn_offsets.empty();
  const std::vector<std::int32_t> lengths = rows.episodes.Sum(rows.lengths);
  input.group_offsets = units.groups;
  if (!turns) input.components = Components(plan);
  for (std::size_t k = 0; k < plan.groups.size(); ++k) {
    const v1::GroupHead& group = *plan.groups[k];
    const std::int32_t first_row = rows.episodes.rows[ToIndex(rows.episodes.groups[k])];
    for (auto u = ToIndex(units.groups[k]); u < ToIndex(units.groups[k + 1]); ++u) {
      const std::size_t e = ToIndex(units.episodes[u]);
      const int root = rows.episodes.rows[e] - first_row;
      input.outcomes.push_back(rows.masked[k] ? Outcome::kUnscorable : OutcomeOf(group, root));
      input.raw_rewards.push_back(group.raw_rewards(root) - units.earlier[u]);
      input.rewards.push_back(rows.rewards[e] - units.earlier[u]);
      input.lengths.push_back(turns ? std::min(lengths[e], 1) : lengths[e]);
    }
    if (turns) {
      input.classes[k] =
          ClassifyGroup(GroupRows(std::span<const double>(input.raw_rewards), units.groups, k),
                        GroupRows(std::span<const Outcome>(input.outcomes), units.groups, k));
    }
  }
}

// The groups that were drawn and are masked or replaced.
CollapseCounts LeftOut(const CollapseCounts& drawn, const CollapseCounts& trained) {
  CollapseCounts left_out;
  left_out.all_correct = drawn.all_correct - trained.all_correct;
  left_out.all_wrong = drawn.all_wrong - trained.all_wrong;
  left_out.other_constant = drawn.other_constant - trained.other_constant;
  left_out.mixed = drawn.mixed - trained.mixed;
  left_out.groups = left_out.constant() + left_out.mixed;
  return left_out;
}

}  // namespace

Result<TrainedRows> ApplyMasks(const Plan& plan, std::span<const double> kl_penalties,
                               const AssignmentOptions& options) {
  TrainedRows rows;
  rows.episodes = EpisodesOf(plan);
  BUTTRESS_ASSIGN_OR_RETURN(rows.units, UnitsOf(plan, rows.episodes, options.run.env.credit));
  AdvantageInput& input = rows.input;
  input.sources = SourceIndices(plan.groups, plan.collapse.sources);
  input.collapse = plan.collapse;
  input.collapse.step = {};
  for (const GroupHeadPtr& group : plan.groups) {
    const CollapseClass collapse = ClassOf(*group);
    const bool masked = options.masks_zero_variance() && collapse != CollapseClass::kMixed;
    rows.masked.push_back(masked);
    rows.planned.Add(collapse);
    input.classes.push_back(masked ? CollapseClass::kUnscorable : collapse);
    input.collapse.step.Add(input.classes.back());
    input.history.push_back(HistoryOf(*group));
    AddEpisodes(*group, masked, options, rows);
  }
  for (std::size_t row = 0; row < kl_penalties.size(); ++row)
    rows.rewards[ToIndex(rows.episodes.of_rows[row])] -= kl_penalties[row];
  FillUnits(plan, rows);
  input.left_out = LeftOut(plan.collapse.step, input.collapse.step);
  input.key = AdvantageKey(options.run.seed, static_cast<std::int64_t>(plan.step));
  return rows;
}

}  // namespace buttress
