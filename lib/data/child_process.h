// Runs work that may crash in a process of its own.
#pragma once

#include <chrono>
#include <functional>

#include "lib/base/report/status.h"

namespace buttress {

// Runs `work` in a forked child and returns its status; what it wrote to memory is lost, what it
// wrote to files stays. kInvalidArgument if a signal ended the child, kDeadlineExceeded after
// `timeout`, kCancelled soon after ShutdownRequested(); the child is gone in each case. `work` must
// not take locks that other threads of the program may hold.
Status RunInChild(const std::function<Status()>& work, std::chrono::milliseconds timeout);

}  // namespace buttress
