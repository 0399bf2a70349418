// `buttress launch NEW.yaml --from RUN[@STEP]`: a new run that begins with a checkpoint of another.
//
// Carried over: weights, optimizer state, and what the learner keeps from step to step (gates of
// the estimator, entropy control), so the first step of the new run is STEP + 1, with the learning
// rate and the random numbers of that step. Also the moving average of ACR, and the position in
// each source of prompts that the new run reads in the same order: it draws next what followed the
// prompts of step STEP. Everything else starts anew: run id, ledger, payloads, prompt history,
// alarms, steps.jsonl.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Makes the folder config.local.out of a run that begins with the checkpoint that `from` names: the
// folder or YAML file of a run, and the step of a checkpoint there, by default the newest that the
// ledger of the run knows (fork_source.h). Returns what to print. The folder appears at once and
// complete, so that the same command may be repeated after a crash; a folder that this command has
// made before is left as it is. The other run may be at work. kInvalidArgument if there is no such
// checkpoint, none that the ledger knows, it is damaged or of another model, or
// run.steps is not beyond it; kFailedPrecondition if the folder has another content.
Result<std::string> ForkRun(const std::string& from, const RunConfig& config);

}  // namespace buttress
