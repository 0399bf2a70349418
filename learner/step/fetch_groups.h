// The groups of a step that a rank runs.
#pragma once

#include "learner/batch_source.h"
#include "learner/step/step_state.h"
#include "lib/base/report/status.h"

namespace buttress {

// Fetches the groups that state.assignment gives to `rank` into state.groups. kDataLoss if they are
// not the groups of the plan with the planned lengths; errors of the source.
Status FetchGroups(BatchSource& source, int rank, StepState& state);

}  // namespace buttress
