// Named points where a test may have the process die, as if by kill -9:
// BUTTRESS_FAILPOINTS="after_commit:crash:20" ends it when the point is reached for the 20th time.
// Several are separated by commas. Without the variable a point costs one branch.
#pragma once

#include <string_view>

#include "lib/base/status.h"

namespace buttress {

// Reads the variable; called once, at start. kInvalidArgument if it is malformed.
Status ArmFailpoints();

// Points that are armed, for buttress_failpoints_active.
int ArmedFailpoints();

// Thread-safe once ArmFailpoints has returned.
void Failpoint(std::string_view name);

}  // namespace buttress
