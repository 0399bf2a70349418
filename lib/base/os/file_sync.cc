#include "lib/base/os/file_sync.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace buttress {
namespace {

// Returns -1 without the variable.
int OpenLog() {
  const char* path = std::getenv("BUTTRESS_SYNC_LOG");
  return path == nullptr ? -1 : ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

std::string EntriesOf(int fd, ino_t inode) {
  std::string lines;
  DIR* const folder = ::fdopendir(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder == nullptr) return lines;
  while (const dirent* const entry = ::readdir(folder))
    lines += fmt::format("entry {} {} {}\n", inode, entry->d_ino, entry->d_name);
  ::closedir(folder);
  return lines;
}

void LogSync(int fd) {
  static const int log = OpenLog();
  if (log < 0) return;

  struct stat info {};

  if (::fstat(fd, &info) != 0) return;
  const std::string lines =
      S_ISDIR(info.st_mode) ? fmt::format("folder {}\n", info.st_ino) + EntriesOf(fd, info.st_ino)
                            : fmt::format("file {} {}\n", info.st_ino, info.st_size);
  // One write, so that a killed process leaves whole lines.
  if (::write(log, lines.data(), lines.size()) < 0) return;
}

}  // namespace

bool SyncDescriptor(int fd) {
  if (::fsync(fd) != 0) return false;
  LogSync(fd);
  return true;
}

bool SyncContent(int fd) {
  if (::fdatasync(fd) != 0) return false;
  LogSync(fd);
  return true;
}

}  // namespace buttress
