// Flags that signals set and that the loops of a program poll: SIGINT and SIGTERM request a
// shutdown, SIGUSR1 requests a checkpoint before it.
#pragma once

#include <chrono>

#include "lib/base/report/status.h"

namespace buttress {

// Installs the handlers. Called once, at the start of main, before any thread.
void InstallShutdownHandlers();

// Returns whether SIGINT or SIGTERM was received. Thread-safe.
bool ShutdownRequested();

// Returns whether SIGUSR1 was received: the learner finishes the step, writes a checkpoint and
// ends. Thread-safe.
bool CheckpointRequested();

// Returns the exit code of a command that a user runs: ExitCode(status), or 130 for kCancelled, by
// which shells say that SIGINT ended a program.
int CommandExitCode(const Status& status);

// Waits until a shutdown is requested or `timeout` has passed. Returns ShutdownRequested().
bool WaitForShutdown(std::chrono::milliseconds timeout);

}  // namespace buttress
