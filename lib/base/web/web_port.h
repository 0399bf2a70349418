// A small HTTP server: one thread serves all connections of a port with epoll, so that a connection
// that is idle or slow delays no other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"

struct MHD_Connection;
struct MHD_Daemon;
struct sockaddr;

namespace buttress {

// A GET or HEAD. Lives as long as the call of its handler.
class WebRequest {
 public:
  WebRequest(MHD_Connection* connection, std::string_view path)
      : path_(path), connection_(connection) {}

  std::string_view path() const { return path_; }

  // Return the value of that name, or an empty string.
  std::string Header(const char* name) const;
  std::string Cookie(const char* name) const;
  std::string Argument(const char* name) const;  // of the query, decoded

 private:
  const std::string_view path_;
  MHD_Connection* const connection_;
};

struct WebReply {
  unsigned code = 200;
  std::string type;  // Content-Type
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Runs on the thread of the port; must not throw.
using WebHandler = std::function<WebReply(const WebRequest&)>;

class WebPort {
 public:
  // Listens on `address`, as in "127.0.0.1:9500"; port 0 picks a free port. Speaks HTTPS with the
  // certificate of `credentials`, whose files it reads again (CertificateFiles); HTTP where they
  // are empty. `what` is served, for messages. Methods other than GET and HEAD are refused. A peer
  // has a bounded number of connections, and an idle one is closed. kUnavailable if the port is
  // taken or the certificate cannot be used.
  static Result<std::unique_ptr<WebPort>> Start(const std::string& address,
                                                const Credentials& credentials,
                                                const std::string& what, WebHandler handler);

  // Waits for the handler to return.
  ~WebPort();
  WebPort(const WebPort&) = delete;
  WebPort& operator=(const WebPort&) = delete;

  int port() const { return port_; }

 private:
  friend struct WebAnswer;

  explicit WebPort(WebHandler handler) : handler_(std::move(handler)) {}

  struct KeyPair {
    std::string certificate;
    std::string key;

    bool operator==(const KeyPair&) const = default;
  };

  Status Listen(const std::string& address, const Credentials& credentials,
                const std::string& what);
  // Serves on `address`, or on the socket if it is null. Returns false if it cannot; errno is 0
  // if the key pair is why.
  bool Serve(const sockaddr* address, int socket);
  // Serves with a pair that was replaced, from the connections on that wait for it.
  void Renew(const KeyPair& pair);
  void WatchFiles(const CertificateFiles& files);

  const WebHandler handler_;
  KeyPair pair_;  // empty: HTTP
  unsigned flags_ = 0;
  MHD_Daemon* daemon_ = nullptr;
  int port_ = 0;
  StopSignal stop_;
  std::thread watch_;
};

}  // namespace buttress
