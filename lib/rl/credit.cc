#include "lib/rl/credit.h"

#include <fmt/core.h>

#include <numeric>

#include "lib/experience/episodes.h"

namespace buttress {
namespace {

// Adds the turns of a group. `row` is the number of rows in front of it.
Status AddTurns(const v1::GroupHead& group, std::size_t row, const PlanEpisodes& episodes,
                CreditUnits& units) {
  double earlier = 0;
  int next = 0;
  for (int i = 0; i < Completions(group); ++i, ++row) {
    if (IsRoot(group, i)) earlier = 0;
    const int turns = group.turns().empty() ? 0 : group.turns(i);
    if (turns == 0 && IsScorable(group, i)) {
      return InvalidArgument(
          fmt::format("plan: completion {} of group {} has no turns, which run.env.credit: turn "
                      "compares",
                      i, group.group_id()));
    }
    for (int t = 0; t < turns; ++t, ++next) {
      units.episodes.push_back(episodes.of_rows[row]);
      units.earlier.push_back(earlier);
      earlier += group.turn_rewards(next);
    }
    units.turn_offsets.push_back(static_cast<std::int32_t>(units.episodes.size()));
  }
  return OkStatus();
}

}  // namespace

std::vector<std::int32_t> PlanEpisodes::Sum(std::span<const std::int32_t> of_row) const {
  std::vector<std::int32_t> sums(size(), 0);
  for (std::size_t row = 0; row < of_row.size(); ++row)
    sums[static_cast<std::size_t>(of_rows[row])] += of_row[row];
  return sums;
}

PlanEpisodes EpisodesOf(const Plan& plan) {
  PlanEpisodes episodes;
  episodes.groups.push_back(0);
  for (const GroupHeadPtr& group : plan.groups) {
    for (int i = 0; i < Completions(*group); ++i) {
      if (IsRoot(*group, i))
        episodes.rows.push_back(static_cast<std::int32_t>(episodes.of_rows.size()));
      episodes.of_rows.push_back(static_cast<std::int32_t>(episodes.rows.size()) - 1);
    }
    episodes.groups.push_back(static_cast<std::int32_t>(episodes.rows.size()));
  }
  episodes.rows.push_back(static_cast<std::int32_t>(episodes.of_rows.size()));
  return episodes;
}

Result<CreditUnits> UnitsOf(const Plan& plan, const PlanEpisodes& episodes, EpisodeCredit credit) {
  CreditUnits units;
  if (credit == EpisodeCredit::kEpisode) {
    units.groups = episodes.groups;
    units.episodes.resize(episodes.size());
    std::iota(units.episodes.begin(), units.episodes.end(), 0);
    units.earlier.resize(episodes.size());
    return units;
  }
  units.groups.push_back(0);
  units.turn_offsets.push_back(0);
  std::size_t row = 0;
  for (const GroupHeadPtr& group : plan.groups) {
    BUTTRESS_RETURN_IF_ERROR(AddTurns(*group, row, episodes, units));
    row += CompletionsOf(*group);
    units.groups.push_back(static_cast<std::int32_t>(units.episodes.size()));
  }
  return units;
}

}  // namespace buttress
