// Programs started from a process with many threads: by posix_spawn, so that neither its memory is
// copied nor a lock of another thread is waited for; with no descriptor but those named, and no
// variable of the environment but those named.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/verify/process/fd.h"

namespace buttress {

struct SpawnRequest {
  std::vector<std::string> argv;         // argv[0] is a path
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<int> fds;                  // fds[i] becomes descriptor i; every other one is closed
};

// The child leads a process group of its own and has no signal blocked or ignored. kUnavailable: it
// could not be started.
Result<pid_t> Spawn(const SpawnRequest& request);

// SIGKILLs the group that `pid` leads and reaps `pid`.
void KillAndReap(pid_t pid);

struct Pipe {
  OwnedFd read;
  OwnedFd write;
};

// Both ends are closed on exec; `read` does not block.
Result<Pipe> MakePipe();

// A file in memory that holds `bytes` and can never be changed, read from its start.
Result<OwnedFd> MakeSealedFile(std::string_view bytes);

// Takes what can be read from a descriptor that does not block, up to `limit` bytes in all. False
// once the other side has closed, or the limit is passed (`text` is then longer than `limit` by a
// byte).
bool ReadSome(int fd, std::size_t limit, std::string& text);

}  // namespace buttress
