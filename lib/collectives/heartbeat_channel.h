// TCP connections that carry messages of one size, for lib/collectives/liveness.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Strangers do not know the key of a job.
using HeartbeatKey = std::array<unsigned char, 16>;

enum class HeartbeatKind : std::int32_t { kBeat = 1, kGone = 2, kGoodbye = 3 };

// All that ranks send to each other, as it is in memory: the ranks of a job run one build.
struct Heartbeat {
  HeartbeatKey key{};
  HeartbeatKind kind = HeartbeatKind::kBeat;
  std::int32_t rank = 0;        // the sender, or of kGone the rank that is gone
  std::int32_t silent_ms = -1;  // of kGone: how long it was silent; -1: its connection was closed
};

// Owns a file descriptor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}

  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  ~Socket();

  int fd() const { return fd_; }

 private:
  int fd_;
};

// A connection. Nothing waits. Not thread-safe.
class HeartbeatChannel {
 public:
  explicit HeartbeatChannel(Socket socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.fd(); }

  // A message that the socket has no room for is lost: its peer has not read for so long that the
  // silence ends the job anyway.
  void Send(const Heartbeat& message) const;

  // Returns the next message, or nullopt if there is none; `closed` is set at the end.
  std::optional<Heartbeat> Receive(bool& closed);

 private:
  Socket socket_;
  std::array<char, sizeof(Heartbeat)> bytes_{};
  std::size_t size_ = 0;
};

// Listens on a free port, on loopback or on every address of the machine.
Result<Socket> ListenForHeartbeats(bool loopback, std::uint16_t& port);

// Takes a connection; nullopt if there is none.
std::optional<HeartbeatChannel> AcceptHeartbeats(const Socket& listener);

// Connects to an IPv4 address, in network order, within two seconds.
std::optional<HeartbeatChannel> ConnectForHeartbeats(std::uint32_t ip, std::uint16_t port);

// The IPv4 addresses, in network order, that other machines may reach this one by; of one network
// interface unless `interface` is empty.
std::vector<std::uint32_t> AddressesOfMachine(const std::string& interface);

}  // namespace buttress
