// The settings of a run as trackers show them.
#pragma once

#include <map>
#include <string>

#include "lib/config/run_config.h"

namespace buttress {

// {"run.optim.lr": "1e-06", ...}: every setting of the `run` half; a list is one text.
std::map<std::string, std::string> SettingsOf(const RunConfig& config);

}  // namespace buttress
