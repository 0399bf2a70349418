#include "cli/checks/port.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace buttress {
namespace {

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

}  // namespace

Status TryListen(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return InvalidArgument(address + ": expected host:port");
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return InvalidArgument(address + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  return TryOne(*list, address);
}

}  // namespace buttress
