#include "cli/operations/stopped_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include "lib/base/busy_mark.h"
#include "lib/base/file.h"

namespace buttress {
namespace {

// Whether a `buttress launch` holds its lock on the folder.
bool IsLaunched(const std::string& folder) {
  const int fd = ::open(JoinPath(folder, "launch.lock").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  return locked;
}

}  // namespace

Status CheckIsStopped(const std::string& folder, const std::string& learner_folder,
                      std::string_view then) {
  for (const std::string& used : {folder, learner_folder}) {
    if (IsLaunched(used)) {
      return FailedPrecondition(
          fmt::format("`buttress launch` uses {}; stop it, then {}", used, then));
    }
  }
  if (IsBusy(CheckpointMark(learner_folder))) {
    return FailedPrecondition(fmt::format("the learner writes a checkpoint in {}; stop it, then {}",
                                          learner_folder, then));
  }
  return OkStatus();
}

}  // namespace buttress
