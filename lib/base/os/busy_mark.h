// A process says to others that it must not be interrupted: a lock on a file, which the kernel
// releases if the process dies. It works across machines where the file system has locks.
#pragma once

#include <string>

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"

namespace buttress {

// Marks this process as busy for the lifetime of the object. One mark a path and process.
class BusyMark {
 public:
  // Creates the file if there is none. A path that cannot be locked is an error: nobody could see
  // the mark.
  static Result<BusyMark> Set(const std::string& path);

 private:
  explicit BusyMark(int fd) : fd_(fd) {}

  OwnedFd fd_;
};

// The mark of the learner of the run in `out`, while it writes a checkpoint.
inline std::string CheckpointMark(const std::string& out) { return out + "/checkpoint.lock"; }

// Whether another process holds a mark at `path`.
bool IsBusy(const std::string& path);

}  // namespace buttress
