// Shared by the commands that call a run's coordinator: how the run is named, and the
// connection.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/load_credentials.h"
#include "lib/config/run_config.h"
#include "lib/rpc/coordinator_client.h"

namespace CLI {
class App;
}

namespace buttress {

struct RunFlags {
  std::string run;  // YAML file, or the folder of a run
  std::vector<std::string> overrides;
  bool json = false;

  // Adds RUN, --set and --json.
  void AddTo(CLI::App& app);

  // Adds RUN and --set.
  void AddRun(CLI::App& app);
};

// Returns the configuration of the run; that of a folder is what its coordinator has stored there.
// kInvalidArgument for a file that cannot be used.
Result<RunConfig> ConfigOf(const RunFlags& flags);

// Returns the settings of this machine in the run, as ConfigOf does, or the defaults for a folder
// in which no coordinator has started yet.
Result<LocalSettings> LocalOf(const RunFlags& flags);

// Returns a client that gives up after `give_up_ms`. kInvalidArgument for a file that cannot be
// used.
Result<std::unique_ptr<CoordinatorClient>> ConnectToRun(const RunFlags& flags, Program program,
                                                        std::int64_t give_up_ms);

}  // namespace buttress
