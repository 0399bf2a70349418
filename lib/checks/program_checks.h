// The table of all checks of a run before it starts: those of `buttress launch`, of `buttress
// doctor`, and of `--check` of each program. Without LibTorch.
#pragma once

#include <cstdint>

#include "lib/checks/findings.h"
#include "lib/checks/memory_checks.h"
#include "lib/config/load.h"
#include "lib/config/run_config.h"

namespace buttress {

// Which part of a run is checked.
enum class CheckScope : std::uint8_t {
  kStart,        // all that `buttress launch` can wait for: the first 100 rows of each dataset
  kDoctor,       // also 2,000 rows, the reward function and the servers; writes no files
  kCoordinator,  // the part of one program
  kWorker,
  kLearner,
};

// Runs the checks of `scope` on a machine with `here` of the processes. Of a learner, only that on
// the first machine (`is_first`) checks the disk and the port of rank 0.
Findings RunChecks(const RunConfig& config, CheckScope scope, const ProcessCounts& here,
                   bool is_first = true);

// Findings::Report for `--check` of a program; where all is well, text ends with the file and the
// hash of the run.
Status ReportProgramChecks(const Findings& findings, const ConfigFlags& flags,
                           const RunConfig& config);

}  // namespace buttress
