// The Python programs that `buttress` holds for work that Python and its packages do, and how it
// runs them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

extern const std::string_view kImportProgram;     // cli/import/import.py
extern const std::string_view kMetricLogProgram;  // cli/explain/metric_log.py
extern const std::string_view kTrackProgram;      // cli/track/track.py
extern const std::string_view kModulesProgram;    // cli/python/modules.py, which runs the next
extern const std::string_view kStudyModules;      // cli/study

// Runs the program by python3 and returns what it writes to standard output. What it writes to
// standard error is shown. kInvalidArgument with its output if it ends with a status other than 0.
// REQUIRES: `arguments` are those of a program that ends by itself.
Result<std::string> RunPython(std::string_view program, std::vector<std::string> arguments);

// Replaces this process by `interpreter`, which runs the program. Returns only if that fails.
Status ExecPython(const std::string& interpreter, std::string_view program,
                  std::vector<std::string> arguments);

}  // namespace buttress
