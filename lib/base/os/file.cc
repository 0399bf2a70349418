#include "lib/base/os/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/fd.h"

namespace buttress {
namespace {

Status FromErrno(const char* what, const std::string& path) {
  const int error = errno;
  const std::string message = fmt::format("{} {}: {}", what, path, std::strerror(error));
  if (error == ENOENT) return NotFound(message);
  if (error == ENOSPC) return ResourceExhausted(message);
  return Unavailable(message);
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FromErrno("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return OkStatus();
}

// Returns -1 without the variable.
int OpenSyncLog() {
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
  static const int log = OpenSyncLog();
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

Result<std::string> ReadFile(const std::string& path, std::int64_t max_bytes) {
  // Without O_NONBLOCK a FIFO would wait for a writer.
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return FromErrno("open", path);

  struct stat info {};

  if (::fstat(file.get(), &info) != 0) return FromErrno("stat", path);
  if (S_ISDIR(info.st_mode)) return InvalidArgument(path + " is a folder; expected a file");
  if (S_ISFIFO(info.st_mode)) return InvalidArgument(path + " is a FIFO; expected a file");
  if (info.st_size > max_bytes) {
    return ResourceExhausted(
        fmt::format("{} has {} bytes; the limit is {}", path, info.st_size, max_bytes));
  }
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FromErrno("read", path);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

Status WriteFileAtomic(const std::string& path, std::string_view bytes) {
  const std::string part = path + ".part." + std::to_string(::getpid());
  {
    const OwnedFd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) return FromErrno("create", part);
    if (!PassFailpoint("file_write")) return FromErrno("write", part);
    BUTTRESS_RETURN_IF_ERROR(WriteAll(file.get(), bytes, part));
    if (!PassFailpoint("file_sync") || !SyncDescriptor(file.get())) return FromErrno("fsync", part);
  }
  if (!PassFailpoint("file_rename") || ::rename(part.c_str(), path.c_str()) != 0)
    return FromErrno("rename to", path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return SyncFolder(folder.empty() ? "." : folder);
}

Status AppendToFile(const std::string& path, std::string_view bytes) {
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.get() < 0) return FromErrno("open", path);
  return WriteAll(file.get(), bytes, path);
}

Status MakeFolders(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> parents;  // of the folders that are created
  for (fs::path made = fs::path(path); !made.empty() && !fs::exists(made, error);
       made = made.parent_path()) {
    parents.push_back(made.has_parent_path() ? made.parent_path().string() : ".");
  }
  fs::create_directories(path, error);
  if (error) return Unavailable("cannot create folder " + path + ": " + error.message());
  for (const std::string& parent : parents) BUTTRESS_RETURN_IF_ERROR(SyncFolder(parent));
  return OkStatus();
}

Status SyncFolder(const std::string& path) {
  const OwnedFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return FromErrno("open", path);
  if (!PassFailpoint("folder_sync") || !SyncDescriptor(folder.get()))
    return FromErrno("fsync", path);
  return OkStatus();
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

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

std::optional<std::uint64_t> FreeBytes(const std::string& folder) {
  struct statvfs info {};

  if (::statvfs(folder.c_str(), &info) != 0) return std::nullopt;
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

void TightenUmask() {
  constexpr mode_t kKept = S_IWGRP | S_IRWXO;
  ::umask(::umask(kKept) | kKept);
}

}  // namespace buttress
