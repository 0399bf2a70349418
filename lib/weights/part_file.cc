#include "lib/weights/part_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

Status FileError(std::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message = fmt::format("{} {}: {}", what, path, std::strerror(error));
  if (error == ENOENT) return NotFound(message);
  if (error == ENOSPC) return ResourceExhausted(message + "; free disk space");
  return Unavailable(message);
}

}  // namespace

PartFile::PartFile(std::string path, std::string part, int fd, std::uint64_t size)
    : path_(std::move(path)), part_(std::move(part)), fd_(fd), size_(size) {}

PartFile::~PartFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<PartFile>> PartFile::Open(const std::string& path, int flags) {
  std::string part = path + ".part";
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644);
  if (fd < 0) return FileError("create", part);

  struct stat info {};

  if (::fstat(fd, &info) != 0) {
    Status status = FileError("stat", part);
    ::close(fd);
    return status;
  }
  return std::unique_ptr<PartFile>(
      new PartFile(path, std::move(part), fd, static_cast<std::uint64_t>(info.st_size)));
}

Result<std::unique_ptr<PartFile>> PartFile::Create(const std::string& path) {
  return Open(path, O_TRUNC);
}

Result<std::unique_ptr<PartFile>> PartFile::Resume(const std::string& path) {
  return Open(path, 0);
}

Status PartFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("write", part_);
    size_ += static_cast<std::uint64_t>(n);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return OkStatus();
}

Status PartFile::Commit(Durability durability) {
  if (durability == Durability::kFsync && !SyncDescriptor(fd_)) return FileError("fsync", part_);
  if (::rename(part_.c_str(), path_.c_str()) != 0) return FileError("rename to", path_);
  if (durability != Durability::kFsync) return OkStatus();
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  return SyncFolder(folder.empty() ? "." : folder);
}

void PartFile::Discard() { ::unlink(part_.c_str()); }

Status UpdateFromFile(const std::string& path, Sha256& sha) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<char> buffer(kReadBytes);
  Status status;
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = FileError("read", path);
    if (n <= 0) break;
    sha.Update({buffer.data(), static_cast<std::size_t>(n)});
  }
  ::close(fd);
  return status;
}

Result<std::string> Sha256OfFile(const std::string& path) {
  Sha256 sha;
  BUTTRESS_RETURN_IF_ERROR(UpdateFromFile(path, sha));
  return sha.Finish();
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

}  // namespace buttress
