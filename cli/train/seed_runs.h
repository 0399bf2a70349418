// The runs of `buttress launch --seeds N`: one run with N seeds, in folders next to one another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/checks/run_checks.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// "runs/x-seeds" for the run of the folder "runs/x".
std::string SeedsFolder(const std::string& out);

// Returns `file`, whose configuration is `config`, once for each of `seeds` seeds from
// config.run.seed on, with overrides of run.seed and of local.out: <SeedsFolder>/seed-<run.seed>.
std::vector<RunFile> SeedRuns(const RunFile& file, const RunConfig& config, std::int64_t seeds);

// kInvalidArgument if the folder of `config` holds a run with other settings, but for its length:
// the runs of a series differ in their seed alone.
Status CheckSameSettings(const RunConfig& config);

}  // namespace buttress
