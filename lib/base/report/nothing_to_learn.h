// Work that ended because nothing can come of it, as a status: a run in which nothing was scored or
// no group differed, an evaluation without a verdict. Neither a restart nor another machine fixes
// that, so the exit code is one of its own (ExitCode).
#pragma once

#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// kFailedPrecondition: "nothing to learn: `why`".
Status NothingToLearn(const std::string& why);

// Whether NothingToLearn made the status, whatever was put before its message since.
bool IsNothingToLearn(const Status& status);

}  // namespace buttress
