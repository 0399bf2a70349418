#include "lib/base/os/busy_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace buttress {
namespace {

// A lock on the whole file.
struct flock WholeFile() {
  struct flock lock {};

  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<BusyMark> BusyMark::Set(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Unavailable("cannot write " + path + ": " + std::strerror(errno));
  BusyMark mark(fd);
  struct flock lock = WholeFile();
  if (::fcntl(fd, F_SETLK, &lock) != 0)
    return Unavailable("cannot lock " + path + ": " + std::strerror(errno));
  return mark;
}

BusyMark::BusyMark(BusyMark&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

BusyMark& BusyMark::operator=(BusyMark&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

BusyMark::~BusyMark() {
  if (fd_ >= 0) ::close(fd_);
}

bool IsBusy(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock = WholeFile();
  const bool known = ::fcntl(fd, F_GETLK, &lock) == 0;
  ::close(fd);
  return known && lock.l_type != F_UNLCK;
}

}  // namespace buttress
