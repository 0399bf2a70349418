// The parts of CheckGroup that look at episodes (run.env).
#pragma once

#include <initializer_list>
#include <string_view>
#include <tuple>

#include "buttress/v1/experience.pb.h"
#include "lib/base/report/status.h"
#include "lib/experience/check.h"

namespace buttress {

// A column with the size that it has and the one that the others give it.
using ColumnSize = std::tuple<std::string_view, std::int64_t, std::int64_t>;

// Returns OK if all have the size that is expected.
Status CheckSizes(std::initializer_list<ColumnSize> columns);

// Returns OK if the columns of episodes have an entry for each completion or turn, and the
// completions of an episode stand side by side. REQUIRES: lengths has an entry for each completion.
Status CheckEpisodeColumns(const v1::GroupHead& head, const GroupLimits& limits);

// Returns OK if the completions of an episode have one verdict and end, and its turn rewards add up
// to its raw reward. REQUIRES: CheckEpisodeColumns, and each completion is valid on its own.
Status CheckEpisodeVerdicts(const v1::GroupHead& head);

// Returns OK if the turns are those that the head counts, and only their tokens are trained and
// have log-probs. REQUIRES: CheckEpisodeColumns, and the trained spans are in order.
Status CheckTurns(const v1::Group& group);

}  // namespace buttress
