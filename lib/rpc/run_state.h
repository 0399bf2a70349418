// The state of a run in words.
#pragma once

#include "buttress/v1/coordinator.pb.h"

namespace buttress {

// "running", "draining", "stopping", ...
const char* RunStateText(v1::RunState state);

// The same, or "paused" where the coordinator waits for disk space.
const char* RunStateText(const v1::GetRunStatusResponse& run);

}  // namespace buttress
