#include "lib/rpc/rpc_server.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/net/address.h"
#include "lib/base/os/clock.h"
#include "lib/base/report/log.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

constexpr int kBacklog = 1024;
constexpr unsigned kUserTimeoutMs = 20000;  // for bytes that a peer does not acknowledge
constexpr int kPauseMs = 100;               // after an accept() that failed
// Of the descriptors, for ledger, payloads, logs and metrics.
constexpr rlim_t kReserve = 64;
constexpr rlim_t kReservedShare = 8;  // one of so many where the limit is small
constexpr std::int64_t kReportMs = 10000;

// Returns how many descriptors connections may take.
int DescriptorsForConnections() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<int>(files.rlim_cur - std::min(kReserve, files.rlim_cur / kReservedShare));
}

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

Result<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& listen,
                                                    const Credentials& credentials,
                                                    const std::vector<grpc::Service*>& services) {
  std::unique_ptr<RpcServer> server(new RpcServer);
  BUTTRESS_RETURN_IF_ERROR(server->Bind(listen));
  grpc::ServerBuilder builder;
  ApplyServerOptions(builder);
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      MakeServerCredentials(credentials));
  for (grpc::Service* service : services) builder.RegisterService(service);
  server->server_ = builder.BuildAndStart();
  if (!server->server_) return Internal("gRPC does not start a server on " + listen);
  server->address_ = BoundAddress(listen, server->port_);
  server->thread_ = std::thread([own = server.get()] { own->AcceptConnections(); });
  return server;
}

void RpcServer::Shutdown(std::chrono::milliseconds grace) {
  if (thread_.joinable()) {
    ::eventfd_write(wake_, 1);
    thread_.join();
  }
  for (const int socket : std::exchange(sockets_, {})) ::close(socket);
  if (wake_ >= 0) ::close(std::exchange(wake_, -1));
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + grace);
}

// Every address of the host gets a socket, all with one port.
Status RpcServer::Bind(const std::string& listen) {
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

void RpcServer::AcceptConnections() {
  std::vector<pollfd> waits = {{wake_, POLLIN, 0}};
  for (const int socket : sockets_) waits.push_back({socket, POLLIN, 0});
  std::int64_t reported_ms = -kReportMs;
  while (waits[0].revents == 0) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    for (std::size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      const int fd = ::accept4(waits[i].fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      // The kernel gives the lowest free number, so that all below this one are taken.
      if (fd >= 0 && fd < DescriptorsForConnections()) {
        Acceptor::NewConnectionParameters connection;
        connection.listener_fd = waits[i].fd;
        connection.fd = fd;
        acceptor_->HandleNewConnection(&connection);
        continue;
      }
      const char* why = fd < 0 ? std::strerror(errno) : "few descriptors are left";
      if (const std::int64_t now_ms = RealClock().MonotonicMs();
          now_ms >= reported_ms + kReportMs) {
        reported_ms = now_ms;
        Log(kWarn, "connections are refused", {{"why", why}});
      }
      if (fd >= 0) ::close(fd);
      // Without a descriptor the connection stays readable: look again a little later.
      if (fd < 0) ::poll(waits.data(), 1, kPauseMs);
    }
  }
}

}  // namespace buttress
