// Turns SIGINT and SIGTERM into a flag that loops look at, and SIGUSR1 into a second one
// ("checkpoint, then leave").
#pragma once

#include <chrono>

namespace buttress {

// Installs the handlers. Called once, at the start of main, before any thread.
void InstallShutdownHandlers();

// True once SIGINT or SIGTERM has come, or RequestShutdown was called. Thread-safe.
bool ShutdownRequested();

// True once SIGUSR1 has come: finish the step, checkpoint, leave. Thread-safe.
bool CheckpointRequested();

void RequestShutdown();

// Waits until shutdown is requested or `timeout` has passed; returns ShutdownRequested().
bool WaitForShutdown(std::chrono::milliseconds timeout);

}  // namespace buttress
