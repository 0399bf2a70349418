// Evaluates weights on the held-out prompts while a run trains (run.eval): takes those that the
// learner leaves in <out>/evals, writes the results to <out>/eval.jsonl, and keeps the best model
// in <out>/best where run.checkpoints.keep_best says so.
//
// The training does not wait for it and reads nothing of it but the results. A process that is
// killed evaluates the same weights again.
#pragma once

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Evaluates what waits, oldest first. Weights that cannot be evaluated are logged and removed.
// kCancelled if the process is asked to end; what is not evaluated then stays. OutOfMemory;
// kUnavailable if the results cannot be written.
Status EvaluatePending(const RunConfig& config);

// Runs the command line, where `argv[0]` is "evaluator", until the process is asked to end, and
// returns the exit code.
int RunEvaluatorCommand(int argc, char** argv);

}  // namespace buttress
