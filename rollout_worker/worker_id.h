// The id of a worker in its run.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Returns local.worker.id or, without one, the host name and a random number, which is another one
// for every call: containers of one host may share its name, and in each the worker is process 1.
// kInvalidArgument if the id cannot be part of a file name.
Result<std::string> WorkerIdOf(const WorkerConfig& config);

}  // namespace buttress
