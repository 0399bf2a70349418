// What an estimator compares of a plan: whole episodes, or the turns of the policy in them
// (run.env.credit). Outside of run.env each completion is an episode.
//
// N completions, which are the rows of the plan, make E episodes in K groups. An estimator sees U
// units: the episodes, or their turns in the order of rows and tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/plan.h"

namespace buttress {

inline std::size_t ToIndex(std::int32_t index) { return static_cast<std::size_t>(index); }

struct PlanEpisodes {
  std::vector<std::int32_t> groups;   // [K + 1] group k has the episodes from [k] up to [k + 1]
  std::vector<std::int32_t> rows;     // [E + 1] episode e has the rows from [e] up to [e + 1]
  std::vector<std::int32_t> of_rows;  // [N] the episode of each row

  std::size_t size() const { return rows.size() - 1; }

  // Returns the sum over the rows of each episode, [E].
  std::vector<std::int32_t> Sum(std::span<const std::int32_t> of_row) const;

  // Returns for each row what its episode has, [N].
  template <class T>
  std::vector<T> ToRows(const std::vector<T>& of_episode) const {
    std::vector<T> out;
    out.reserve(of_rows.size());
    for (const std::int32_t e : of_rows) out.push_back(of_episode[ToIndex(e)]);
    return out;
  }
};

PlanEpisodes EpisodesOf(const Plan& plan);

struct CreditUnits {
  std::vector<std::int32_t> groups;    // [K + 1] group k has the units from [k] up to [k + 1]
  std::vector<std::int32_t> episodes;  // [U] the episode of each
  // [U] what the turns in front of it were worth. The reward of a unit is that of its episode less
  // this: the sum of its own reward and those of later turns (the return, Sutton and Barto 2018,
  // Eq 3.8, undiscounted).
  std::vector<double> earlier;
  // [N + 1] row i has the turns from [i] up to [i + 1]; empty where episodes are compared
  std::vector<std::int32_t> turn_offsets;

  // Return the units of a row: its turns, or its episode.
  std::int32_t begin(const PlanEpisodes& plan, std::size_t row) const {
    return turn_offsets.empty() ? plan.of_rows[row] : turn_offsets[row];
  }

  std::int32_t end(const PlanEpisodes& plan, std::size_t row) const {
    return turn_offsets.empty() ? plan.of_rows[row] + 1 : turn_offsets[row + 1];
  }
};

// kInvalidArgument for turns of a plan with a scorable completion that has none.
Result<CreditUnits> UnitsOf(const Plan& plan, const PlanEpisodes& episodes, EpisodeCredit credit);

}  // namespace buttress
