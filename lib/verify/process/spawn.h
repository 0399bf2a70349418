// Starts programs from a process with many threads. posix_spawn neither copies memory nor waits for
// locks of other threads. A program receives only the named descriptors and environment variables.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"

namespace buttress {

struct SpawnRequest {
  std::vector<std::string> argv;         // argv[0] is a path
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<int> fds;                  // fds[i] becomes descriptor i; all others are closed
};

// Starts a program that leads a process group of its own and has no signal blocked or ignored.
// Returns kUnavailable if it cannot be started.
Result<pid_t> Spawn(const SpawnRequest& request);

// Sends SIGKILL to the group that `pid` leads and reaps `pid`.
void KillAndReap(pid_t pid);

// Asks `pid` with SIGTERM to end, for `patience`, and then does as KillAndReap.
void EndAndReap(pid_t pid, std::chrono::milliseconds patience);

struct Pipe {
  OwnedFd read;
  OwnedFd write;
};

// Makes a pipe. Both ends are closed on exec, and `read` does not block.
Result<Pipe> MakePipe();

// Returns a file in memory that contains `bytes` and cannot be changed, positioned at its start.
Result<OwnedFd> MakeSealedFile(std::string_view bytes);

// Appends the available bytes of a nonblocking descriptor to `text`, up to `limit` bytes in total.
// Returns false once the other side has closed, or the limit is exceeded; `text` is then one byte
// longer than `limit`.
bool ReadSome(int fd, std::size_t limit, std::string& text);

}  // namespace buttress
