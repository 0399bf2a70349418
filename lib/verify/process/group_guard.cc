#include "lib/verify/process/group_guard.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/verify/process/spawn.h"

namespace buttress {
namespace {

// Keeps the watched leaders as words, and kills their groups behind the last line.
constexpr const char* kScript = R"sh(watched=' '
while read -r what leader; do
  case $what in
    +) watched="$watched$leader " ;;
    -) watched="${watched%% $leader *} ${watched#* $leader }" ;;
  esac
done
for leader in $watched; do kill -s KILL -- "-$leader"; done)sh";

}  // namespace

Result<std::unique_ptr<GroupGuard>> GroupGuard::Start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Unavailable(std::string("cannot make a socket: ") + std::strerror(errno));
  OwnedFd ours(ends[0]);
  const OwnedFd theirs(ends[1]), null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t shell,
                            Spawn({.argv = {"/bin/sh", "-c", kScript},
                                   .environment = {},
                                   .fds = {theirs.get(), null.get(), null.get()}}));
  return std::unique_ptr<GroupGuard>(new GroupGuard(shell, std::move(ours)));
}

GroupGuard::~GroupGuard() { KillAndReap(shell_); }

// A line is shorter than what a socket takes at once, so that those of two threads do not mix.
void GroupGuard::Tell(std::string_view what, pid_t leader) const {
  const std::string line = fmt::format("{} {}\n", what, leader);
  ::send(link_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace buttress
