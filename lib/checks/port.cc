#include "lib/checks/port.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/net/address.h"

namespace buttress {
namespace {

constexpr int kConnectMs = 2000;

Status TryOne(const addrinfo& info, const std::string& address) {
  const int fd = ::socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol);
  if (fd < 0) return InvalidArgument(address + ": " + std::strerror(errno));
  const int on = 1;  // a connection that was closed a moment ago does not count
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (info.ai_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const bool ok = ::bind(fd, info.ai_addr, info.ai_addrlen) == 0 && ::listen(fd, 1) == 0;
  const int error = errno;
  ::close(fd);
  if (ok) return OkStatus();
  const std::string message = "cannot listen on " + address + ": " + std::strerror(error);
  return error == EADDRINUSE ? Unavailable(message) : InvalidArgument(message);
}

bool Connects(const addrinfo& info) {
  const int type = info.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const int fd = ::socket(info.ai_family, type, info.ai_protocol);
  if (fd < 0) return false;
  bool ok = ::connect(fd, info.ai_addr, info.ai_addrlen) == 0;
  if (!ok && errno == EINPROGRESS) {
    pollfd ready{fd, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    ok = ::poll(&ready, 1, kConnectMs) == 1 &&
         ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  ::close(fd);
  return ok;
}

}  // namespace

Status TryListen(const std::string& address) {
  BUTTRESS_ASSIGN_OR_RETURN(const AddressList list, ResolveListen(address));
  return TryOne(*list, address);
}

bool CanConnect(const std::string& address) {
  const Result<AddressList> list = ResolveListen(address);
  for (const addrinfo* one = list.ok() ? list->get() : nullptr; one != nullptr; one = one->ai_next)
    if (Connects(*one)) return true;
  return false;
}

}  // namespace buttress
