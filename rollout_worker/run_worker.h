// A rollout worker process around an engine: scoring, weights, metrics, the coordinator. Without
// torch.
#pragma once

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Works until the run is finished or the process is asked to stop (OK), or cannot go on
// (Worker::Run). `engine` has loaded run.model.path.
Status RunWorker(const RunConfig& config, InferenceEngine& engine);

}  // namespace buttress
