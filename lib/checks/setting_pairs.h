// Settings that are each sound and work against each other.
#pragma once

#include "lib/checks/findings.h"
#include "lib/config/run_config.h"

namespace buttress {

// Warns of each pair that is set, with the reason and the mend.
void CheckSettingPairs(const RunSettings& run, Findings& findings);

}  // namespace buttress
