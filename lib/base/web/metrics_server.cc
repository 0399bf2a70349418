#include "lib/base/web/metrics_server.h"

#include <fmt/core.h>

#include <optional>
#include <string_view>

namespace buttress {
namespace {

constexpr unsigned kOk = 200, kUnauthorized = 401, kForbidden = 403, kNotFound = 404,
                   kNotReady = 503;

WebReply Reply(unsigned code, std::string text) {
  WebReply reply = {code, "text/plain; version=0.0.4; charset=utf-8", std::move(text)};
  if (code == kUnauthorized) reply.headers = {{"WWW-Authenticate", "Bearer"}};
  return reply;
}

WebReply ReplyToProbe(const std::string& why_not) {
  return why_not.empty() ? Reply(kOk, "ok\n") : Reply(kNotReady, why_not + "\n");
}

}  // namespace

WebReply MetricsServer::Answer(const WebRequest& request) const {
  if (request.path() == "/livez") return ReplyToProbe(health_.WhyNotAlive());
  if (request.path() == "/readyz") return ReplyToProbe(health_.WhyNotReady());
  if (request.path() != "/metrics")
    return Reply(kNotFound, "not found; this port serves /metrics, /livez and /readyz\n");
  if (credentials_.empty()) return Reply(kOk, expose_());
  const std::optional<Role> role = credentials_.RoleOf(request.Header("Authorization"));
  if (!role) {
    return Reply(kUnauthorized,
                 "the token is missing or of another run; send that of monitor.token\n");
  }
  if (role != Role::kMonitor) {
    return Reply(kForbidden, fmt::format("/metrics needs the token of the monitor, not that of "
                                         "the {}; send that of monitor.token\n",
                                         RoleName(*role)));
  }
  return Reply(kOk, expose_());
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                            Credentials credentials,
                                                            const Health& health,
                                                            std::function<std::string()> expose) {
  std::unique_ptr<MetricsServer> server(
      new MetricsServer(std::move(credentials), health, std::move(expose)));
  const MetricsServer& answers = *server;
  BUTTRESS_ASSIGN_OR_RETURN(server->port_, WebPort::Start(address, server->credentials_, "/metrics",
                                                          [&answers](const WebRequest& request) {
                                                            return answers.Answer(request);
                                                          }));
  return server;
}

}  // namespace buttress
