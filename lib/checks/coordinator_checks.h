// The check that a program agrees with the coordinator that it will speak with, where one is up.
#pragma once

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

}  // namespace buttress
