#include "lib/data/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>

#include "lib/base/os/shutdown.h"

namespace buttress {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick(100);

// Writes the code of a status as a byte, and its message.
void Send(int fd, const Status& status) {
  const std::string text = static_cast<char>(status.code()) + status.message();
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(fd, text.data() + sent, text.size() - sent);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void RunChild(const std::function<Status()>& work, int fd, pid_t parent) {
  // The handlers of the program write to a pipe that it shares with the child.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (::getppid() != parent) ::_exit(1);  // the parent died before the prctl
  try {
    Send(fd, work());
  } catch (const std::exception& error) {
    Send(fd, Internal(error.what()));
  }
  ::_exit(0);
}

// Appends what the child sends to `text`, until the child closes its end.
Status Receive(int fd, Clock::time_point deadline, std::string& text) {
  while (true) {
    if (ShutdownRequested()) return Cancelled("stopped by a signal");
    if (Clock::now() > deadline) return DeadlineExceeded("it took too long");
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(kTick.count())) <= 0) continue;
    std::array<char, 4096> block;
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n == 0) return OkStatus();
    if (n > 0) text.append(block.data(), static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR)
      return Internal(fmt::format("cannot read from the child: {}", std::strerror(errno)));
  }
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

}  // namespace

Status RunInChild(const std::function<Status()>& work, std::chrono::milliseconds timeout) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return Unavailable(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) RunChild(work, ends[1], parent);
  const int fork_error = errno;
  ::close(ends[1]);
  std::string text;
  Status received;
  int status = 0;
  if (pid > 0) {
    received = Receive(ends[0], Clock::now() + timeout, text);
    if (!received.ok()) ::kill(pid, SIGKILL);
    status = WaitFor(pid);
  }
  ::close(ends[0]);
  if (pid < 0)
    return Unavailable(fmt::format("cannot start a process: {}", std::strerror(fork_error)));
  BUTTRESS_RETURN_IF_ERROR(received);
  if (WIFSIGNALED(status))
    return InvalidArgument(fmt::format("the process that read it was ended by signal {} ({})",
                                       WTERMSIG(status), ::strsignal(WTERMSIG(status))));
  if (text.empty()) return Internal("the child process said nothing");
  const auto code = static_cast<StatusCode>(text.front());
  return code == StatusCode::kOk ? OkStatus() : Status(code, text.substr(1));
}

}  // namespace buttress
