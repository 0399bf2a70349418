// `buttress launch run.yaml`: coordinator, workers and `mpirun ... learner` on this machine,
// supervised until the run is done.
//
// A role that dies is started again, with backoff and a bound; a lost rank ends mpirun, which
// restarts the whole learner job. Exits 2 (configuration) and 4 (data) are not restarted: trying
// again cannot help. On SIGINT or SIGTERM everything is asked to finish: first the learner to
// checkpoint (SIGUSR1, which mpirun passes on), because mpirun kills ranks a second after a SIGTERM
// of its own.
#pragma once

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/config/run_config.h"

namespace buttress {

struct LaunchOptions {
  std::string config_path;
  std::vector<std::string> overrides;
  bool fresh = false;    // move an earlier run's folder aside instead of resuming it
  bool evaluate = true;  // accuracy on run.data.held_out before and after
};

// Runs to the end. OK when the last step is settled and the summary is written; kCancelled when it
// was interrupted and stopped cleanly.
Status Launch(const LaunchOptions& options, const RunConfig& config);

}  // namespace buttress
