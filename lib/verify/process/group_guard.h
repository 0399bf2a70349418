// Ends process groups with the process that started them, however that ends: a process that is
// killed runs no destructor, and PR_SET_PDEATHSIG would leave out what the group's leader started.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string_view>

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"

namespace buttress {

// A shell that waits for the end of this process, and then sends SIGKILL to the groups that it was
// told to watch. Thread-safe.
class GroupGuard {
 public:
  // Returns kUnavailable if /bin/sh cannot be started.
  static Result<std::unique_ptr<GroupGuard>> Start();

  // Ends the shell and leaves the groups alone.
  ~GroupGuard();

  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  // Begins and ends to watch the group that `leader` leads. Unwatch comes before the leader is
  // reaped, because its number may be another's then. Does nothing if somebody has killed the
  // shell.
  void Watch(pid_t leader) { Tell("+", leader); }

  void Unwatch(pid_t leader) { Tell("-", leader); }

 private:
  GroupGuard(pid_t shell, OwnedFd link) : shell_(shell), link_(std::move(link)) {}

  void Tell(std::string_view what, pid_t leader) const;

  const pid_t shell_;
  const OwnedFd link_;  // the shell reads its end of file when this process is gone
};

}  // namespace buttress
