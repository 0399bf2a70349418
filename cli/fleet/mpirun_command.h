// The command line of mpirun.
#pragma once

#include <string>
#include <vector>

#include "lib/config/run_config.h"

namespace buttress {

// Returns the mpirun of local.launch with all its arguments for the learner's ranks, up to the
// program. `hosts` are those of the machines (Fleet::MpirunArguments); empty if there are none.
std::vector<std::string> MpirunCommand(const LocalSettings& local,
                                       const std::vector<std::string>& hosts);

}  // namespace buttress
