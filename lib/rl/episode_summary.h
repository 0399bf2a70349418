// What the episodes of a step did (run.env).
#pragma once

#include "lib/experience/plan.h"
#include "lib/rl/batch_measurements.h"

namespace buttress {

// Fills the measurements of episodes; they stay not measured in a plan without episodes, and those
// of tool calls and repeated answers in one of groups that do not count them. Pure.
void SummarizeEpisodes(const Plan& plan, BatchMeasurements& summary);

}  // namespace buttress
