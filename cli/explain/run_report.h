// The post-mortem of a run, for what shows its causes next to other things.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/explain/post_mortem.h"

namespace buttress {

// Reads all groups of a run folder, which may be running; without groups, the report has none.
// Errors as OpenSteps.
Result<Report> ReadReport(const std::string& run);

// Returns the most frequent cause for which groups of a run gave no signal, with their number, what
// the cause means, and what to do; empty if every group gave one. Errors as OpenSteps.
Result<std::string> LargestCause(const std::string& run);

}  // namespace buttress
