#include "lib/base/os/shutdown.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

namespace buttress {
namespace {

std::atomic<bool> shutdown_requested{false};
std::atomic<bool> checkpoint_requested{false};
// Its bytes are never read, so that the read end stays readable for every waiter after a request.
int wake_pipe[2] = {-1, -1};

void OnStop(int) {
  shutdown_requested = true;
  if (wake_pipe[1] >= 0) [[maybe_unused]]
    const ssize_t n = ::write(wake_pipe[1], "x", 1);
}

void OnCheckpoint(int) { checkpoint_requested = true; }

}  // namespace

void InstallShutdownHandlers() {
  if (::pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) wake_pipe[0] = wake_pipe[1] = -1;

  struct sigaction action {};

  action.sa_handler = OnStop;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = OnCheckpoint;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool ShutdownRequested() { return shutdown_requested; }

bool CheckpointRequested() { return checkpoint_requested; }

int CommandExitCode(const Status& status) {
  constexpr int kInterrupted = 130;
  return status.code() == StatusCode::kCancelled ? kInterrupted : ExitCode(status);
}

bool WaitForShutdown(std::chrono::milliseconds timeout) {
  if (shutdown_requested) return true;
  pollfd fd{wake_pipe[0], POLLIN, 0};
  ::poll(&fd, wake_pipe[0] >= 0 ? 1 : 0, static_cast<int>(timeout.count()));
  return shutdown_requested;
}

}  // namespace buttress
