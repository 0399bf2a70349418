// A file descriptor that its owner closes on destruction.
#pragma once

#include <unistd.h>

#include <utility>

namespace buttress {

class OwnedFd {
 public:
  OwnedFd() = default;

  explicit OwnedFd(int fd) : fd_(fd) {}

  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  ~OwnedFd() { Close(); }

  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

}  // namespace buttress
