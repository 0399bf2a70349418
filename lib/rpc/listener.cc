#include "lib/rpc/listener.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "lib/base/address.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

constexpr int kBacklog = 1024;
constexpr unsigned kUserTimeoutMs = 20000;  // for bytes that a peer does not acknowledge
constexpr int kPauseMs = 100;               // after an accept() that failed
// Of the descriptors, for ledger, payloads, logs and metrics.
constexpr std::size_t kReserve = 64;
constexpr std::size_t kReservedShare = 8;  // one of so many where the limit is small
constexpr std::int64_t kTellEveryMs = 10000;
constexpr std::int64_t kSweepEveryMs = 1000;

// How many descriptors connections may take.
std::size_t DescriptorsForConnections() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const std::size_t limit = files.rlim_cur;
  return limit - std::min(kReserve, limit / kReservedShare);
}

std::string PeerOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& ip4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return {reinterpret_cast<const char*>(&ip4), sizeof ip4};
  }
  const auto& ip6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return {reinterpret_cast<const char*>(&ip6), sizeof ip6};
}

// Decides which connections stay. gRPC closes them without a word, so that a connection counts
// until its descriptor is seen to be closed or another socket. Not thread-safe.
class Admission {
 public:
  // Whether the connection `fd` of `peer` may stay; the caller closes it if not.
  bool Admit(int fd, const std::string& peer, std::int64_t now_ms) {
    const std::size_t most = DescriptorsForConnections();
    // The kernel gives the lowest free number, so that all below this one are taken.
    if (static_cast<std::size_t>(fd) >= most) return Refuse(now_ms, "few descriptors are left");
    Peer& own = peers_[peer];
    if (own.sockets.size() >= most / 2 && now_ms >= own.swept_ms + kSweepEveryMs) {
      own.swept_ms = now_ms;
      Sweep(own);
    }
    if (own.sockets.size() >= most / 2)
      return Refuse(now_ms, "one address holds half of the connections");
    own.sockets[fd] = InodeOf(fd);
    if (++admitted_ > most) ForgetClosed();
    return true;
  }

 private:
  struct Peer {
    std::map<int, ino_t> sockets;
    std::int64_t swept_ms = 0;
  };

  static ino_t InodeOf(int fd) {
    struct stat file {};

    return ::fstat(fd, &file) == 0 ? file.st_ino : 0;
  }

  static void Sweep(Peer& peer) {
    std::erase_if(peer.sockets,
                  [](const auto& held) { return InodeOf(held.first) != held.second; });
  }

  void ForgetClosed() {
    admitted_ = 0;
    for (auto& [name, peer] : peers_) Sweep(peer);
    std::erase_if(peers_, [](const auto& peer) { return peer.second.sockets.empty(); });
  }

  bool Refuse(std::int64_t now_ms, const char* why) {
    ++refused_;
    if (now_ms < told_ms_ + kTellEveryMs) return false;
    told_ms_ = now_ms;
    Log(kWarn, "connections are refused", {{"why", why}, {"refused", refused_}});
    return false;
  }

  std::map<std::string, Peer> peers_;
  std::size_t admitted_ = 0;  // since all peers were swept
  std::int64_t refused_ = 0;
  std::int64_t told_ms_ = -kTellEveryMs;
};

Status ListenError(const std::string& listen, int error) {
  return Unavailable(fmt::format(
      "cannot listen on {}: {}; stop the process that uses the port, or choose another port or 0",
      listen, std::strerror(error)));
}

// Returns a listening socket, or -1 with errno.
int OpenSocket(const addrinfo& found, int port) {
  sockaddr_storage address{};
  std::memcpy(&address, found.ai_addr, found.ai_addrlen);
  if (port != 0) {
    reinterpret_cast<sockaddr_in&>(address).sin_port =
        htons(static_cast<std::uint16_t>(port));  // of both families
  }
  const int fd = ::socket(found.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (fd < 0) return -1;
  const int yes = 1, no = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (found.ai_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  // Connections inherit these.
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), found.ai_addrlen) == 0 &&
      ::listen(fd, kBacklog) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::Open(const std::string& listen,
                                                 const Credentials& credentials,
                                                 grpc::ServerBuilder& builder) {
  std::unique_ptr<Listener> listener(new Listener);
  BUTTRESS_RETURN_IF_ERROR(listener->Bind(listen));
  listener->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      MakeServerCredentials(credentials));
  return listener;
}

Listener::~Listener() {
  if (thread_.joinable()) {
    ::eventfd_write(wake_, 1);
    thread_.join();
  }
  for (const int socket : sockets_) ::close(socket);
  if (wake_ >= 0) ::close(wake_);
}

// Every address of the host gets a socket, all with one port.
Status Listener::Bind(const std::string& listen) {
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return ListenError(listen, errno);
  int error = EADDRNOTAVAIL;
  for (const std::string& form : ListenForms(listen)) {
    BUTTRESS_ASSIGN_OR_RETURN(const AddressList found, ResolveListen(form));
    for (const addrinfo* next = found.get(); next != nullptr; next = next->ai_next) {
      const int socket = OpenSocket(*next, port_);
      if (socket < 0) {
        error = errno;
        // A machine may lack one of the two families.
        if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) continue;
        return ListenError(listen, error);
      }
      sockets_.push_back(socket);
      port_ = PortOf(socket);
    }
    if (!sockets_.empty()) return OkStatus();
  }
  return ListenError(listen, error);
}

void Listener::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Listener::Run() {
  Admission admission;
  std::vector<pollfd> waits = {{wake_, POLLIN, 0}};
  for (const int socket : sockets_) waits.push_back({socket, POLLIN, 0});
  while (waits[0].revents == 0) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    for (std::size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int fd = ::accept4(waits[i].fd, reinterpret_cast<sockaddr*>(&address), &size,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        // Without a descriptor the connection stays readable: look again a little later.
        ::poll(waits.data(), 1, kPauseMs);
      } else if (admission.Admit(fd, PeerOf(address), RealClock().MonotonicMs())) {
        Acceptor::NewConnectionParameters connection;
        connection.listener_fd = waits[i].fd;
        connection.fd = fd;
        acceptor_->HandleNewConnection(&connection);
      } else {
        ::close(fd);
      }
    }
  }
}

}  // namespace buttress
