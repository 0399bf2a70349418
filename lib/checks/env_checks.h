// Checks of what the episodes of a run (run.env) need on the machine of a worker.
#pragma once

#include "lib/checks/findings.h"
#include "lib/config/run_config.h"

namespace buttress {

// Checks the program of the agent and the file that tool search reads. Says nothing of what the run
// does not use.
void CheckEnvFiles(const EnvConfig& env, Findings& findings);

}  // namespace buttress
