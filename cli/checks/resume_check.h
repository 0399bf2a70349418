// Checks the settings of a run against those that its folder was started with.
#pragma once

#include "lib/checks/findings.h"
#include "lib/config/run_config.h"

namespace buttress {

// Names each key of `run` that differs from <out>/config.yaml: an error unless it may change when a
// run is resumed. Says nothing where local.out holds no run.
void CheckResume(const RunConfig& config, Findings& findings);

}  // namespace buttress
