// Signs that the first batch of a run is off, reported before a second one is trained.
#pragma once

#include <string>
#include <vector>

#include "lib/measure/measurements.h"

namespace buttress {

// One line for each thing that is off with the batch of `step`, trained from the weights that
// sampled it; empty if nothing is.
std::vector<std::string> FirstBatchNotices(const StepMeasurements& step);

}  // namespace buttress
