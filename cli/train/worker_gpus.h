// The GPUs that `buttress launch` gives to its workers.
#pragma once

#include <vector>

#include "lib/base/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Returns a GPU for each of local.launch.workers, of `visible`: the learner's ranks take the first
// ones, if they compute on GPUs, and each worker one of the next. Empty if launch has none to give:
// the workers' engines use no GPU, or local.worker.gpu names the one that they share.
// kInvalidArgument if there are too few.
Result<std::vector<int>> AssignWorkerGpus(const LocalSettings& local, int visible);

// Whether AssignWorkerGpus has GPUs to give.
bool WorkersNeedGpus(const LocalSettings& local);

}  // namespace buttress
