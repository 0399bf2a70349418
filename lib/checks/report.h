// Prints what checks have found.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/checks/findings.h"
#include "lib/config/load.h"
#include "lib/config/run_config.h"

namespace buttress {

// Prints a line for each finding to standard output, or JSON: {"ok": ..., "checks": [{"check",
// "severity", "text"}]}. kInvalidArgument, without the list, if there is an error.
Status ReportChecks(const Findings& findings, bool as_json);

// ReportChecks for `--check` of a program; where all is well, text ends with the file and the hash
// of the run.
Status ReportProgramChecks(const Findings& findings, const ConfigFlags& flags,
                           const RunConfig& config);

}  // namespace buttress
