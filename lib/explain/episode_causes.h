// The causes that only groups of episodes (run.env) have. Pure.
#pragma once

#include <optional>

#include "lib/explain/cause.h"
#include "lib/explain/facts.h"

namespace buttress {

// Returns the cause for which the episodes of a group failed alike: unreadable calls, failing
// tools, loops or episode limit, the first that applies. REQUIRES: they have not all succeeded.
std::optional<Diagnosis> DiagnoseEpisodes(const GroupFacts& group, const CauseRules& rules);

}  // namespace buttress
