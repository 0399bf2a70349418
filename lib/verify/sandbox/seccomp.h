// The system calls that a sandboxed program is refused.
#pragma once

#include "lib/base/status.h"
#include "lib/verify/process/fd.h"

namespace buttress {

// The filter as a BPF program in a file, read from its start, as bubblewrap takes it. kInternal:
// libseccomp cannot make it.
Result<OwnedFd> MakeSeccompFilter();

}  // namespace buttress
