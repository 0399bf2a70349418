// A gRPC server on one port, whose connections this project accepts itself.
//
// gRPC's own listener stops for good at the first accept() that fails, for want of descriptors for
// example. Here an accept() that fails is repeated, and the last descriptors are kept for files.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"

namespace buttress {

// Not thread-safe.
class RpcServer {
 public:
  // Serves `service`, which outlives the server, on `listen`, as in "127.0.0.1:0" or "[::1]:7000";
  // port 0 picks a free one, and a wildcard host stands for every interface, of IPv4 and IPv6.
  // Admits callers as MakeServerCredentials says. kInvalidArgument for an address that does not
  // exist, kUnavailable if the port is taken.
  static Result<std::unique_ptr<RpcServer>> Start(const std::string& listen,
                                                  const Credentials& credentials,
                                                  const std::vector<grpc::Service*>& services);

  ~RpcServer() { Shutdown(std::chrono::milliseconds(0)); }

  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Accepts no more connections and calls, waits for those in flight for `grace`, and cancels the
  // others. Idempotent.
  void Shutdown(std::chrono::milliseconds grace);

  // Returns the address at which peers reach the server (BoundAddress).
  const std::string& address() const { return address_; }

  int port() const { return port_; }

  // Returns null unless grpc::EnableDefaultHealthCheckService(true) was called before Start.
  grpc::HealthCheckServiceInterface* health() { return server_->GetHealthCheckService(); }

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  RpcServer() = default;
  Status Bind(const std::string& listen);
  void AcceptConnections();

  std::vector<int> sockets_;
  int wake_ = -1;  // readable once the thread must end
  int port_ = 0;
  std::string address_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

}  // namespace buttress
