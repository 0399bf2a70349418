// The folder of a run as one process at a time may change it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"

namespace buttress {

// Keeps other processes from launching in a folder. The kernel releases it when the process ends.
class FolderLock {
 public:
  static constexpr std::string_view kName = "launch.lock";

  // kFailedPrecondition if another process has the lock.
  static Result<FolderLock> Take(const std::string& folder);

 private:
  explicit FolderLock(OwnedFd fd) : fd_(std::move(fd)) {}

  OwnedFd fd_;
};

// Returns OK if nothing of a run is at work that would notice a change of its files, except a
// coordinator, which Ledger::Open finds. kFailedPrecondition if a `buttress launch` has one of the
// folders, or if the learner writes a checkpoint in `learner_folder`; `then` says what to do once
// the run is stopped.
Status CheckIsStopped(const std::string& folder, const std::string& learner_folder,
                      std::string_view then);

// Renames a folder such as runs/x to runs/x.1, or to the first free number, which it returns.
Result<std::string> MoveAside(const std::string& folder);

// Gives the finished folder `part` its name, durably.
Status PublishFolder(const std::string& part, const std::string& folder);

// Links the file `from` as `to`, or copies it to another file system, durably.
Status LinkOrCopy(const std::string& from, const std::string& to);

// Makes the content of a file durable.
Status SyncFile(const std::string& path);

// Whether `folder` has a checkpoint or the steps of a learner.
bool HasLearner(const std::string& folder);

}  // namespace buttress
