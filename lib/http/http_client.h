// An HTTP/1.1 client over libcurl: any number of transfers on the caller's thread, each with
// deadlines of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct HttpDeadlines {
  std::int64_t connect_ms = 5000;
  std::int64_t first_byte_ms = 600000;  // from the start to the first byte of the body
  std::int64_t idle_ms = 120000;        // between two pieces of the body
  std::int64_t whole_ms = 0;            // from the start to the end; 0: unbounded
};

struct HttpRequest {
  std::string url;                  // http or https
  std::optional<std::string> json;  // the body of a POST; absent: GET
  std::string bearer;               // API key; empty: none
  std::string id;                   // X-Request-Id; empty: none
  // Whether a POST may use a connection of an earlier transfer, as every GET does. If that breaks
  // before a byte of the reply, the request is sent again on another connection, so the server may
  // receive it twice.
  bool reuse_connection = false;
  HttpDeadlines deadlines;
  std::size_t max_body_bytes = std::size_t{32} << 20;  // of a reply that is collected
};

struct HttpReply {
  long status = 0;
  std::string body;  // empty where a BytesHandler received it
};

// Receives the body of a 200 reply piece by piece. An error ends the transfer with that error. The
// handler must not call the HttpClient.
using BytesHandler = std::function<Status(std::string_view)>;

// Receives the outcome of a transfer, once, from HttpClient::Step: the reply, or
//   kUnavailable         there was no connection, or it broke;
//   kDeadlineExceeded    the message names the deadline;
//   kResourceExhausted   the body exceeds max_body_bytes;
//   kFailedPrecondition  the server's certificate is not valid;
//   kInvalidArgument     the URL is malformed.
using DoneHandler = std::function<void(Result<HttpReply>)>;

// Connections are direct and kept for reuse; proxies of the environment and redirects are ignored.
//
// Thread safety: none, except that Wake and Stop may be called from any thread.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Starts a transfer and returns its id. Without `bytes` the body is collected in the reply.
  std::uint64_t Start(HttpRequest request, BytesHandler bytes, DoneHandler done);

  // Closes the transfer's connection. Its handlers are not called again.
  void Cancel(std::uint64_t id);

  // Moves bytes and calls handlers. Waits at most `timeout_ms` for something to do.
  void Step(std::int64_t timeout_ms);

  // Ends the wait of the current or next Step.
  void Wake();

  // Makes the current Fetch and every later one return kCancelled.
  void Stop();

  // Runs all requests concurrently to their ends and returns the replies in the order of requests.
  std::vector<Result<HttpReply>> Fetch(std::vector<HttpRequest> requests);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace buttress
