// Whether a batch makes sense, before any estimator sees it.
#pragma once

#include "lib/base/status.h"
#include "lib/rl/advantage.h"

namespace buttress {

// Every completion is correct or wrong (or outcomes are unknown), its rewards and components are finite, its length is not negative.
bool AllScorable(const AdvantageInput& input);

// Shapes agree; outcomes are set; scorable completions have finite rewards and components; lengths are not negative; histories have
// 0 <= correct <= scored. kInvalidArgument names the first field and row that does not. Pure.
Status CheckBatch(const AdvantageInput& input);

}  // namespace buttress
