// A TCP connection from one loopback address to a port of another.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace buttress {

// Not thread-safe. Every function gives up after `patience_seconds`.
class LoopbackConnection {
 public:
  // `from` is the last byte of an address in 127.0.0.0/24; the port is one of 127.0.0.1.
  LoopbackConnection(std::uint32_t from, int port, int patience_seconds = 5)
      : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = AddressOf(from, 0), peer = AddressOf(1, port);
    const timeval patience = {patience_seconds, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    open_ = ::bind(descriptor_, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0 &&
            ::connect(descriptor_, reinterpret_cast<sockaddr*>(&peer), sizeof peer) == 0;
  }

  ~LoopbackConnection() { ::close(descriptor_); }

  LoopbackConnection(const LoopbackConnection&) = delete;
  LoopbackConnection& operator=(const LoopbackConnection&) = delete;

  // Whether the kernel made the connection; the peer may have closed it since.
  bool open() const { return open_; }

  // A peer that has gone raises no signal.
  void Send(const std::string& text) {
    ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
  }

  // What has arrived, in one piece; empty if the peer has closed.
  std::string Receive() {
    char buffer[4096];
    const ssize_t count = ::recv(descriptor_, buffer, sizeof buffer, 0);
    return {buffer, static_cast<std::size_t>(count > 0 ? count : 0)};
  }

 private:
  static sockaddr_in AddressOf(std::uint32_t last_byte, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl((127U << 24) + last_byte);
    return address;
  }

  const int descriptor_;
  bool open_ = false;
};

}  // namespace buttress
