// Whether a batch makes sense, before any estimator sees it.
#pragma once

#include "lib/base/status.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

// Shapes agree; outcomes are set; scorable completions have finite rewards and components; lengths
// are not negative; histories have 0 <= correct <= scored. kInvalidArgument names the first field
// and row that does not. True if no completion is unscorable. Pure.
Result<bool> CheckBatch(const AdvantageInput& input);

// No advantage is infinite or not a number: an estimator that overflows must not reach the weights.
Status CheckAdvantages(const AdvantageOutput& out, std::string_view estimator);

}  // namespace buttress
