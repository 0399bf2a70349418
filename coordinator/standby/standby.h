// A standby: follows the coordinator of a run into a folder of its own, and answers nothing.
#pragma once

#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Follows the coordinator at local.coordinator.advertise into local.out until the process is asked
// to stop. While no coordinator answers it tries again, and keeps what it has. Errors are those of
// StandbyFolder, and what a coordinator says that has no standby.
Status FollowCoordinator(const RunConfig& config, const Credentials& credentials);

}  // namespace buttress
