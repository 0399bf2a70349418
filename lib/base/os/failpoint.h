// Named points at which a test kills a process with SIGKILL, slows it, or lets a system call fail.
// BUTTRESS_FAILPOINTS lists entries, separated by commas: "after_commit:crash:20" kills the process
// when it reaches the point after_commit for the 20th time, "checkpoint:sleep:5000" lets it sleep
// for 5,000 ms whenever it reaches the point checkpoint, "payload_sync:fail:2" lets the second call
// at the point payload_sync fail with EIO. Without the variable a point costs one branch.
#pragma once

#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// Reads the variable. Called once, at the start of main. kInvalidArgument if an entry is malformed.
Status ArmFailpoints();

// The number of armed points, for the metric buttress_failpoints_active.
int ArmedFailpoints();

// Marks the point `name`. Thread-safe once ArmFailpoints has returned.
void Failpoint(std::string_view name);

// Marks the point `name` before a system call. Returns false, with errno EIO, if the call is to
// fail. Thread-safe as Failpoint.
bool PassFailpoint(std::string_view name);

}  // namespace buttress
