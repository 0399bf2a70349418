// Checks on both sides of the estimators.
#pragma once

#include <string_view>

#include "lib/base/report/status.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

// Checks that shapes agree, outcomes are set, scorable completions have finite rewards and
// components, lengths are not negative, and histories have 0 <= correct <= scored.
// kInvalidArgument names the first field and row that is wrong. Pure.
Status CheckBatch(const AdvantageInput& input);

// Checks that every advantage is a finite number: an estimator that overflows must not reach the
// weights. `estimator` is named in the message.
Status CheckAdvantages(const AdvantageOutput& out, std::string_view estimator);

}  // namespace buttress
