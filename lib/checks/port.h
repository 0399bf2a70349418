// The check that a port is free, or served.
#pragma once

#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// Listens on `address` (host:port) for a moment. kUnavailable if another process has the port,
// kInvalidArgument if this machine has no such address or may not use it.
Status TryListen(const std::string& address);

// Whether somebody listens at `address` (host:port), within two seconds.
bool CanConnect(const std::string& address);

}  // namespace buttress
