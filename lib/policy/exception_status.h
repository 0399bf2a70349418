// Exceptions of LibTorch and of the standard library as a Status. Torch.
#pragma once

#include <exception>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// OutOfMemory, with what was asked for, the peak memory of this process on the host, and `advice`
// (which settings to lower), or kInternal.
Status StatusOf(const std::exception& exception, const std::string& advice);

}  // namespace buttress
