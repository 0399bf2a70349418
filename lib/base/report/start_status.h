// Failures at the start of a program.
#pragma once

#include "lib/base/report/status.h"

namespace buttress {

// Returns the status of an input that a program cannot start without: kNotFound becomes
// kInvalidArgument, whose exit code says that a restart finds the same. Others stay.
inline Status AsInput(const Status& status) {
  return status.code() == StatusCode::kNotFound ? InvalidArgument(status.message()) : status;
}

}  // namespace buttress
