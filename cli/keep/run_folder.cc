#include "cli/keep/run_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lib/base/os/busy_mark.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

Status CannotRename(const std::string& from, const std::string& to, const std::error_code& error) {
  return Unavailable(fmt::format("cannot rename {} to {}: {}", from, to, error.message()));
}

}  // namespace

Result<FolderLock> FolderLock::Take(const std::string& folder) {
  const std::string path = JoinPath(folder, kName);
  OwnedFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (fd.get() < 0) return Unavailable("cannot write " + path + "; it must be no link");
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return FolderLock(std::move(fd));
  return FailedPrecondition("another `buttress launch` uses " + folder +
                            "; stop it, or set local.out to another folder");
}

Status CheckIsStopped(const std::string& folder, const std::string& learner_folder,
                      std::string_view then) {
  for (const std::string& used : {folder, learner_folder}) {
    std::error_code ignored;
    if (fs::exists(JoinPath(used, FolderLock::kName), ignored) && !FolderLock::Take(used).ok()) {
      return FailedPrecondition(
          fmt::format("`buttress launch` uses {}; stop it, then {}", used, then));
    }
  }
  if (!IsBusy(CheckpointMark(learner_folder))) return OkStatus();
  return FailedPrecondition(
      fmt::format("the learner writes a checkpoint in {}; stop it, then {}", learner_folder, then));
}

Result<std::string> MoveAside(const std::string& folder) {
  int n = 1;
  while (fs::exists(fmt::format("{}.{}", folder, n))) ++n;
  const std::string target = fmt::format("{}.{}", folder, n);
  std::error_code error;
  fs::rename(folder, target, error);
  if (error) return CannotRename(folder, target, error);
  return target;
}

Status PublishFolder(const std::string& part, const std::string& folder) {
  std::error_code error;
  fs::rename(part, folder, error);
  if (error) return CannotRename(part, folder, error);
  return SyncFolder(fs::absolute(folder).parent_path().string());
}

Status SyncFile(const std::string& path) {
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() >= 0 && SyncDescriptor(fd.get())) return OkStatus();
  return Unavailable("cannot sync " + path + ": " + std::strerror(errno));
}

Status LinkOrCopy(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error == std::errc::no_such_file_or_directory) return NotFound(from + ": no such file");
  if (!error) return OkStatus();
  fs::copy_file(from, to, error);
  if (error) return Unavailable(fmt::format("cannot copy {} to {}: {}", from, to, error.message()));
  return SyncFile(to);
}

bool HasLearner(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(JoinPath(folder, "checkpoint"), ignored) ||
         fs::exists(JoinPath(folder, "steps.jsonl"), ignored);
}

}  // namespace buttress
