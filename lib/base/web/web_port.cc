#include "lib/base/web/web_port.h"

#include <fmt/core.h>
#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "lib/base/net/address.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"

namespace buttress {
namespace {

// A peer that opens many connections and sends a byte now and then takes its own share of them.
constexpr unsigned kConnections = 128;
constexpr unsigned kConnectionsOfAddress = 32;
constexpr unsigned kIdleSeconds = 10;
constexpr std::int64_t kMaxFileBytes = 1 << 20;
constexpr char kTlsVersions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

MHD_Result Send(MHD_Connection* connection, const WebReply& reply) {
  MHD_Response* const response = MHD_create_response_from_buffer(
      reply.body.size(), const_cast<char*>(reply.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", reply.type.c_str());
  for (const auto& [name, value] : reply.headers)
    MHD_add_response_header(response, name.c_str(), value.c_str());
  const MHD_Result queued = MHD_queue_response(connection, reply.code, response);
  MHD_destroy_response(response);
  return queued;
}

std::string Value(MHD_Connection* connection, MHD_ValueKind kind, const char* name) {
  const char* const value = MHD_lookup_connection_value(connection, kind, name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string WebRequest::Header(const char* name) const {
  return Value(connection_, MHD_HEADER_KIND, name);
}

std::string WebRequest::Cookie(const char* name) const {
  return Value(connection_, MHD_COOKIE_KIND, name);
}

std::string WebRequest::Argument(const char* name) const {
  return Value(connection_, MHD_GET_ARGUMENT_KIND, name);
}

struct WebAnswer {
  // libmicrohttpd prescribes the signature.
  static MHD_Result Answer(void* self, MHD_Connection* connection, const char* url,
                           const char* method, const char*, const char*, std::size_t*, void**) {
    const std::string_view verb(method);
    if (verb != "GET" && verb != "HEAD")
      return Send(connection, {MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "GET only\n"});
    return Send(connection, static_cast<WebPort*>(self)->handler_(WebRequest(connection, url)));
  }
};

Result<std::unique_ptr<WebPort>> WebPort::Start(const std::string& address,
                                                const Credentials& credentials,
                                                const std::string& what, WebHandler handler) {
  std::unique_ptr<WebPort> port(new WebPort(std::move(handler)));
  BUTTRESS_RETURN_IF_ERROR(port->Listen(address, credentials, what));
  return port;
}

WebPort::~WebPort() {
  stop_.Stop();
  if (watch_.joinable()) watch_.join();
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

Status WebPort::Listen(const std::string& address, const Credentials& credentials,
                       const std::string& what) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto resolved, ResolveListen(address));
  // The channel between threads (ITC) is what lets a socket go from one daemon to the next.
  flags_ = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC;
  if (resolved->ai_family == AF_INET6) flags_ |= MHD_USE_IPv6;
  if (!credentials.empty()) flags_ |= MHD_USE_TLS;
  pair_ = {credentials.certificate, credentials.key};
  if (!Serve(resolved->ai_addr, -1)) {
    return Unavailable(fmt::format(
        "cannot serve {} on {}: {}; choose another port, or 0 for any", what, address,
        errno != 0 ? std::strerror(errno) : "the certificate or its key cannot be used"));
  }
  port_ = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port;
  if (!credentials.empty())
    watch_ = std::thread([this, files = credentials.files] { WatchFiles(files); });
  return OkStatus();
}

bool WebPort::Serve(const sockaddr* address, int socket) {
  std::vector<MHD_OptionItem> options = {
      {MHD_OPTION_CONNECTION_LIMIT, kConnections, nullptr},
      {MHD_OPTION_PER_IP_CONNECTION_LIMIT, kConnectionsOfAddress, nullptr},
      {MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, nullptr}};
  if (address == nullptr) {
    options.push_back({MHD_OPTION_LISTEN_SOCKET, socket, nullptr});
  } else {
    options.push_back({MHD_OPTION_SOCK_ADDR, 0, const_cast<sockaddr*>(address)});
  }
  if ((flags_ & MHD_USE_TLS) != 0) {
    options.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, pair_.certificate.data()});
    options.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, pair_.key.data()});
    options.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kTlsVersions)});
  }
  options.push_back({MHD_OPTION_END, 0, nullptr});
  errno = 0;
  daemon_ = MHD_start_daemon(flags_, 0, nullptr, nullptr, &WebAnswer::Answer, this,
                             MHD_OPTION_ARRAY, options.data(), MHD_OPTION_END);
  return daemon_ != nullptr;
}

void WebPort::WatchFiles(const CertificateFiles& files) {
  KeyPair seen = pair_;
  while (daemon_ != nullptr && !stop_.WaitFor(std::chrono::seconds(kCertificateRefreshSeconds))) {
    const auto certificate = ReadFile(files.certificate, kMaxFileBytes);
    const auto key = ReadFile(files.key, kMaxFileBytes);
    if (!certificate.ok() || !key.ok()) continue;
    KeyPair found = {*certificate, *key};
    if (found == seen) continue;
    seen = found;
    if (found != pair_) Renew(found);
  }
}

// A daemon closes the socket that it was given, also when it cannot start.
void WebPort::Renew(const KeyPair& pair) {
  const int socket = MHD_quiesce_daemon(daemon_);
  MHD_stop_daemon(daemon_);
  const KeyPair before = std::exchange(pair_, pair);
  if (Serve(nullptr, ::dup(socket))) {
    Log(kInfo, "a port serves with a certificate that was replaced", {{"port", port_}});
  } else {
    Log(kWarn, "the certificate or its key cannot be used; a port keeps those before",
        {{"port", port_}});
    pair_ = before;
    if (!Serve(nullptr, ::dup(socket)))
      Log(kError, "a port cannot be served any more", {{"port", port_}});
  }
  ::close(socket);
}

}  // namespace buttress
