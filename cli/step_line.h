// The line of a finished step in the live view of `buttress launch`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/measure/measurements.h"

namespace buttress {

// "step 12/400 3%  reward 0.41  acr 0.44 (...)  ...  left 1m32s", with "-" for what was not
// measured, such as an ACR where nothing was scored. Where it applies also "drawn 61 (29 replaced,
// 0 masked)  tokens x1.90" (drawn for each that is kept), "unscorable 25 %", and, from a tenth of
// the step, "waits 34 % (groups)". A negative `seconds_left` means "not known yet".
std::string StepLine(const StepMeasurements& step, std::int64_t total_steps, double seconds_left);

// How many of the newest steps give the pace.
inline constexpr std::size_t kPaceSteps = 50;

// Returns the seconds to the last step at the pace of the newest steps; -1 with fewer than two.
double SecondsLeft(const std::vector<StepMeasurements>& steps, std::int64_t total_steps);

}  // namespace buttress
