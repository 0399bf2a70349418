// The filter of system calls for a program in the sandbox: what it does not list does not exist.
#pragma once

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"
#include "lib/verify/process/spawn.h"

namespace buttress {

// Returns a file with the filter as a BPF program, positioned at its start, for bubblewrap's
// --seccomp. Returns kInternal if libseccomp cannot make the filter.
Result<OwnedFd> MakeSeccompFilter();

}  // namespace buttress
