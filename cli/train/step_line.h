// The line of a finished step in the live view of `buttress launch`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/measure/measurements.h"

namespace buttress {

// "step 12/400   3%  reward 0.410  accuracy 0.39  acr 0.44  entropy 1.2  8123 tok/s  left 1m32s",
// with "-" for what was not measured, such as an ACR where nothing was scored, and "unscorable 25%"
// where it applies; at most 120 columns. A negative `seconds_left` means "not known yet". `verbose`
// adds the classes of collapse, KL, fresh tokens per second, age of the tokens, the groups and
// tokens drawn for those that are kept, and, from a tenth of the step, what the learner waited for.
std::string StepLine(const StepMeasurements& step, std::int64_t total_steps, double seconds_left,
                     bool verbose = false);

// How many of the newest steps give the pace.
inline constexpr std::size_t kPaceSteps = 50;

// Returns the seconds to the last step at the pace of the newest steps; -1 with fewer than two.
double SecondsLeft(const std::vector<StepMeasurements>& steps, std::int64_t total_steps);

}  // namespace buttress
