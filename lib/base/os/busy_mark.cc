#include "lib/base/os/busy_mark.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

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

bool IsBusy(const std::string& path) {
  const OwnedFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.get() < 0) return false;
  struct flock lock = WholeFile();
  return ::fcntl(fd.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace buttress
