// The HTTP port of a program: /metrics for Prometheus, /healthz for whoever asks whether the
// process is there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/credentials.h"
#include "lib/base/status.h"

struct MHD_Daemon;

namespace buttress {

// One thread serves all connections, so idle ones delay nothing. With credentials: HTTPS, and
// /metrics wants the token (/healthz, which says nothing but "ok", does not: a kubelet cannot send
// one).
class MetricsServer {
 public:
  // "127.0.0.1:9500"; port 0 picks a free one. `expose` gives the text of /metrics and is called on
  // the server's thread. kUnavailable: the port is taken, or the certificate cannot be used.
  static Result<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                      Credentials credentials,
                                                      std::function<std::string()> expose);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_; }

 private:
  friend struct MetricsRequest;

  MetricsServer(Credentials credentials, std::function<std::string()> expose)
      : credentials_(std::move(credentials)), expose_(std::move(expose)) {}

  Status Listen(const std::string& address);

  const Credentials credentials_;
  const std::function<std::string()> expose_;
  MHD_Daemon* daemon_ = nullptr;
  int port_ = 0;
};

}  // namespace buttress
