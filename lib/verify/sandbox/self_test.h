// Tries to leave a sandbox before anything is scored in it.
#pragma once

#include <string>

#include "lib/verify/sandbox/sandbox.h"

namespace buttress {

// OK if a harmless program runs and no escape works. kFailedPrecondition names what does not hold.
Status TestSandbox(const Sandbox& sandbox, const std::string& python);

}  // namespace buttress
