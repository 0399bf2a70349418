// Runs a rollout worker around an engine: its id, scoring, weights, metrics and the coordinator's
// client. Torch-free.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Returns local.worker.id or, without one, the host name and a random number, which is another one
// for every call: containers of one host may share its name, and in each the worker is process 1.
// kInvalidArgument if the id cannot be part of a file name.
Result<std::string> WorkerIdOf(const WorkerConfig& config);

// Works until the run is finished or the process is asked to stop, and returns the status of
// Worker::Run. REQUIRES: `tokenizer` and `engine` have loaded run.model.path.
Status RunWorker(const RunConfig& config, const Tokenizer& tokenizer, InferenceEngine& engine);

}  // namespace buttress
