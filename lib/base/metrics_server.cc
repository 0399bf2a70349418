#include "lib/base/metrics_server.h"

#include <fmt/core.h>
#include <microhttpd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/address.h"

namespace buttress {
namespace {

// A peer that opens many connections and sends a byte now and then takes its own share of them.
constexpr unsigned kConnections = 128;
constexpr unsigned kConnectionsOfAddress = 32;
constexpr unsigned kIdleSeconds = 10;
constexpr char kTlsVersions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

MHD_Result Reply(MHD_Connection* connection, unsigned code, std::string text) {
  MHD_Response* const response =
      MHD_create_response_from_buffer(text.size(), text.data(), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  if (code == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  const MHD_Result queued = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result ReplyToProbe(MHD_Connection* connection, const std::string& why_not) {
  if (why_not.empty()) return Reply(connection, MHD_HTTP_OK, "ok\n");
  return Reply(connection, MHD_HTTP_SERVICE_UNAVAILABLE, why_not + "\n");
}

}  // namespace

struct MetricsRequest {
  // libmicrohttpd prescribes the signature.
  static MHD_Result Answer(void* self, MHD_Connection* connection, const char* url,
                           const char* method, const char*, const char*, std::size_t*, void**) {
    const auto& server = *static_cast<MetricsServer*>(self);
    const std::string_view path(url), verb(method);
    if (verb != "GET" && verb != "HEAD")
      return Reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
    if (path == "/livez") return ReplyToProbe(connection, server.health_.WhyNotAlive());
    if (path == "/readyz") return ReplyToProbe(connection, server.health_.WhyNotReady());
    if (path != "/metrics")
      return Reply(connection, MHD_HTTP_NOT_FOUND,
                   "not found; this port serves /metrics, /livez and /readyz\n");
    const char* const sent =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (server.credentials_.empty()) return Reply(connection, MHD_HTTP_OK, server.expose_());
    const std::optional<Role> role = server.credentials_.RoleOf(sent == nullptr ? "" : sent);
    if (!role) {
      return Reply(connection, MHD_HTTP_UNAUTHORIZED,
                   "the token is missing or of another run; send that of monitor.token\n");
    }
    if (role != Role::kMonitor) {
      return Reply(connection, MHD_HTTP_FORBIDDEN,
                   fmt::format("/metrics needs the token of the monitor, not that of the {}; send "
                               "that of monitor.token\n",
                               RoleName(*role)));
    }
    return Reply(connection, MHD_HTTP_OK, server.expose_());
  }
};

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                            Credentials credentials,
                                                            const Health& health,
                                                            std::function<std::string()> expose) {
  std::unique_ptr<MetricsServer> server(
      new MetricsServer(std::move(credentials), health, std::move(expose)));
  BUTTRESS_RETURN_IF_ERROR(server->Listen(address));
  return server;
}

MetricsServer::~MetricsServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

Status MetricsServer::Listen(const std::string& address) {
  BUTTRESS_ASSIGN_OR_RETURN(const AddressList resolved, ResolveListen(address));
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD;
  if (resolved->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
  std::vector<MHD_OptionItem> options = {
      {MHD_OPTION_SOCK_ADDR, 0, resolved->ai_addr},
      {MHD_OPTION_CONNECTION_LIMIT, kConnections, nullptr},
      {MHD_OPTION_PER_IP_CONNECTION_LIMIT, kConnectionsOfAddress, nullptr},
      {MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, nullptr}};
  if (!credentials_.empty()) {
    flags |= MHD_USE_TLS;
    options.push_back(
        {MHD_OPTION_HTTPS_MEM_CERT, 0, const_cast<char*>(credentials_.certificate.c_str())});
    options.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, const_cast<char*>(credentials_.key.c_str())});
    options.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kTlsVersions)});
  }
  options.push_back({MHD_OPTION_END, 0, nullptr});
  errno = 0;
  daemon_ = MHD_start_daemon(flags, 0, nullptr, nullptr, &MetricsRequest::Answer, this,
                             MHD_OPTION_ARRAY, options.data(), MHD_OPTION_END);
  if (daemon_ == nullptr) {
    return Unavailable(fmt::format(
        "cannot serve /metrics on {}: {}; choose another port, or 0 for any", address,
        errno != 0 ? std::strerror(errno) : "the certificate or its key cannot be used"));
  }
  port_ = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port;
  return OkStatus();
}

}  // namespace buttress
