// The files of the reward functions in Python: a resumed run must not be scored by others.
#pragma once

#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

struct RewardFile {
  std::string path;
  std::string name;    // relative to the folder of its function, so that a run may move
  std::string sha256;  // in hexadecimal digits; empty: it cannot be read on this machine
};

// Returns the files of the functions that `config` names, and the modules that they import from
// their folders or below (lib/verify/remote/python_modules.h).
std::vector<RewardFile> RewardFilesOf(const RewardConfig& config);

// Compares the files with those of the last start of the run in local.out, as its versions.json has
// them. kInvalidArgument names those that changed, unless run.reward.python.revision has a value
// that is new. OK for a run that begins, and for files that this machine does not have.
Status CheckRewardFiles(const RunConfig& config);

}  // namespace buttress
