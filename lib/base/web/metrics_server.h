// The HTTP port of a program: /metrics for Prometheus, /livez and /readyz for probes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/net/credentials.h"
#include "lib/base/net/health.h"
#include "lib/base/report/status.h"
#include "lib/base/web/web_port.h"

namespace buttress {

// With credentials the port speaks HTTPS and /metrics asks for the monitor's token. The probes do
// not, because a kubelet cannot send one: they answer "ok", or 503 and why not.
class MetricsServer {
 public:
  // Listens on `address`, as in "127.0.0.1:9500"; port 0 picks a free port. `expose` returns the
  // text of /metrics and runs on the thread of the server; `health` outlives it. kUnavailable if
  // the port is taken or the certificate cannot be used.
  static Result<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                      Credentials credentials, const Health& health,
                                                      std::function<std::string()> expose);
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_->port(); }

 private:
  MetricsServer(Credentials credentials, const Health& health, std::function<std::string()> expose)
      : credentials_(std::move(credentials)), health_(health), expose_(std::move(expose)) {}

  WebReply Answer(const WebRequest& request) const;

  const Credentials credentials_;
  const Health& health_;
  const std::function<std::string()> expose_;
  std::unique_ptr<WebPort> port_;  // the last, so that it ends before what it answers with
};

}  // namespace buttress
