// The port of a gRPC server, whose connections this project accepts itself.
//
// gRPC's own listener stops for good at the first accept() that fails, for want of descriptors for
// example. Here an accept() that fails is repeated, and the last descriptors are kept for files.
#pragma once

#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/credentials.h"
#include "lib/base/status.h"

namespace buttress {

// Not thread-safe. Destroy it before the server is shut down.
class Listener {
 public:
  // Listens on `listen`, as in "127.0.0.1:0" or "[::1]:7000"; port 0 picks a free one, and a
  // wildcard host stands for every interface, of IPv4 and IPv6. The server of `builder` gets the
  // connections, and admits callers as MakeServerCredentials says. kInvalidArgument for an address
  // that does not exist, kUnavailable if the port is taken.
  static Result<std::unique_ptr<Listener>> Open(const std::string& listen,
                                                const Credentials& credentials,
                                                grpc::ServerBuilder& builder);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Accepts connections from now on, on a thread of its own. REQUIRES: the server has started.
  void Start();

  int port() const { return port_; }

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  Listener() = default;
  Status Bind(const std::string& listen);
  void Run();

  std::vector<int> sockets_;
  int wake_ = -1;  // readable once the thread must end
  int port_ = 0;
  std::unique_ptr<Acceptor> acceptor_;
  std::thread thread_;
};

}  // namespace buttress
