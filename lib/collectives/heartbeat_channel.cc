#include "lib/collectives/heartbeat_channel.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace buttress {
namespace {

constexpr int kConnectMs = 2000;
constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

sockaddr_in AddressOf(std::uint32_t ip, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ip;
  address.sin_port = htons(port);
  return address;
}

void SendAtOnce(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Whether a connection in progress is made in time.
bool IsConnected(int fd) {
  pollfd ready{fd, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  return ::poll(&ready, 1, kConnectMs) == 1 &&
         ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

void HeartbeatChannel::Send(const Heartbeat& message) const {
  [[maybe_unused]] const ssize_t sent =
      ::send(fd(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::optional<Heartbeat> HeartbeatChannel::Receive(bool& closed) {
  for (;;) {
    const ssize_t got = ::recv(fd(), bytes_.data() + size_, bytes_.size() - size_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (got <= 0) {
      closed = true;
      return std::nullopt;
    }
    size_ += static_cast<std::size_t>(got);
    if (size_ < bytes_.size()) continue;
    size_ = 0;
    Heartbeat message;
    std::memcpy(&message, bytes_.data(), sizeof message);
    return message;
  }
}

Result<Socket> ListenForHeartbeats(bool loopback, std::uint16_t& port) {
  Socket socket(::socket(AF_INET, kSocketFlags, 0));
  sockaddr_in address = AddressOf(htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY), 0);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (socket.fd() < 0 || ::bind(socket.fd(), any, size) != 0 ||
      ::listen(socket.fd(), SOMAXCONN) != 0 || ::getsockname(socket.fd(), any, &size) != 0)
    return Unavailable(fmt::format("port for heartbeats: {}", std::strerror(errno)));
  port = ntohs(address.sin_port);
  return socket;
}

std::optional<HeartbeatChannel> AcceptHeartbeats(const Socket& listener) {
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.fd() < 0) return std::nullopt;
  SendAtOnce(socket.fd());
  return HeartbeatChannel(std::move(socket));
}

std::optional<HeartbeatChannel> ConnectForHeartbeats(std::uint32_t ip, std::uint16_t port) {
  Socket socket(::socket(AF_INET, kSocketFlags, 0));
  if (socket.fd() < 0) return std::nullopt;
  const sockaddr_in address = AddressOf(ip, port);
  const int made =
      ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (made != 0 && (errno != EINPROGRESS || !IsConnected(socket.fd()))) return std::nullopt;
  SendAtOnce(socket.fd());
  return HeartbeatChannel(std::move(socket));
}

std::vector<std::uint32_t> AddressesOfMachine(const std::string& interface) {
  std::vector<std::uint32_t> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (!interface.empty() && interface != entry->ifa_name) continue;
    addresses.push_back(reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr);
  }
  ::freeifaddrs(all);
  return addresses;
}

}  // namespace buttress
