// The cause that the closing text of a run names.
#pragma once

#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// Returns the most frequent cause for which groups of a run gave no signal, with their number, what
// the cause means, and what to do; empty if every group gave one. Reads the whole ledger of the run
// folder. Errors as OpenSteps.
Result<std::string> LargestCause(const std::string& run);

}  // namespace buttress
