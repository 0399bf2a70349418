// Memory that ran out, of the host or of a GPU, as a status. A restart with the same sizes would
// meet the same limit, so the exit code is one of its own (ExitCode).
#pragma once

#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// kResourceExhausted: "out of memory: `what`".
Status OutOfMemory(const std::string& what);

// Whether OutOfMemory made the status, whatever was put before its message since. A disk that is
// full is kResourceExhausted as well, and may have room again when the process is restarted.
bool IsOutOfMemory(const Status& status);

}  // namespace buttress
