// Flags that signals set and that the loops of a program poll: SIGINT and SIGTERM request a
// shutdown, SIGUSR1 requests a checkpoint before it.
#pragma once

#include <chrono>

namespace buttress {

// Installs the handlers. Called once, at the start of main, before any thread.
void InstallShutdownHandlers();

// Returns whether SIGINT or SIGTERM was received or RequestShutdown was called. Thread-safe.
bool ShutdownRequested();

// Returns whether SIGUSR1 was received: the learner finishes the step, writes a checkpoint and
// ends. Thread-safe.
bool CheckpointRequested();

// Requests a shutdown as SIGTERM does. Thread-safe.
void RequestShutdown();

// Waits until a shutdown is requested or `timeout` has passed. Returns ShutdownRequested().
bool WaitForShutdown(std::chrono::milliseconds timeout);

}  // namespace buttress
