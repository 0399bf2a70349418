// Serves published and fetched weights to other processes.
#pragma once

#include <memory>
#include <string>

#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"

namespace buttress {

class RpcServer;
class WeightsService;

// The gRPC service Weights, over every version folder below one folder. Serves until destroyed.
class WeightServer {
 public:
  // Listens on `listen`, as in "127.0.0.1:0"; port 0 picks a free port. kUnavailable if the port is
  // taken.
  static Result<std::unique_ptr<WeightServer>> Start(const std::string& folder,
                                                     const std::string& listen,
                                                     const Credentials& credentials = {});
  ~WeightServer();
  WeightServer(const WeightServer&) = delete;
  WeightServer& operator=(const WeightServer&) = delete;

  // The address at which peers reach the server (BoundAddress).
  const std::string& address() const;

 private:
  explicit WeightServer(const std::string& folder);

  std::unique_ptr<WeightsService> service_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace buttress
