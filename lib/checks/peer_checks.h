// Checks of what a program of a run speaks with: the coordinator, its folder, the vLLM servers.
#pragma once

#include <string>

#include "lib/checks/findings.h"
#include "lib/config/load_credentials.h"
#include "lib/config/run_config.h"

namespace buttress {

// Calls the coordinator with the certificate and the token of `program`: an error if its port is
// reached and a call is not possible, with the side that has to change. A coordinator that is not
// started is no error. Takes some seconds at most. Makes threads: a process that forks afterwards
// does so before.
void CheckCoordinator(const RunConfig& config, Program program, Findings& findings);

// The run folder is that into which the coordinator writes: <out>/config.yaml is there and of this
// run. An error if there is none and the coordinator is up elsewhere (local.coordinator.advertise),
// although weights come by the folder (local.worker.weights: shared).
void CheckSharedFolder(const RunConfig& config, Findings& findings);

// The vLLM servers answer, and serve local.worker.vllm.model.
void CheckServers(const VllmConfig& vllm, Findings& findings);

}  // namespace buttress
