// HTTP/1.1 by libcurl's multi interface: many transfers on the caller's thread, each with its own
// deadlines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

struct HttpDeadlines {
  std::int64_t connect_ms = 5000;
  std::int64_t first_byte_ms = 600000;  // from the start to the first byte of the body
  std::int64_t idle_ms = 120000;        // between bytes of the body
  std::int64_t whole_ms = 0;            // from the start to the end; 0: no bound
};

struct HttpRequest {
  std::string url;
  std::optional<std::string> json;  // POST with this body; nothing: GET
  std::string bearer;               // API key; empty: none
  std::string id;                   // X-Request-Id; empty: none
  HttpDeadlines deadlines;
};

struct HttpReply {
  long status = 0;
  std::string body;  // empty where a BytesHandler took it
};

// Takes body bytes of a 200 reply as they come; a failure ends the transfer with it. Must not call
// the HttpMulti.
using BytesHandler = std::function<Status(std::string_view)>;

// Called once from Step: the reply, or why there is none. kUnavailable: no or broken connection;
// kDeadlineExceeded names the deadline; kResourceExhausted: a body above 32 MiB.
using DoneHandler = std::function<void(Result<HttpReply>)>;

// Not thread-safe, Wake apart. Connects directly: proxies of the environment are not used.
class HttpMulti {
 public:
  HttpMulti();
  ~HttpMulti();
  HttpMulti(const HttpMulti&) = delete;
  HttpMulti& operator=(const HttpMulti&) = delete;

  // The transfer's id. Without `bytes` the body is collected.
  std::uint64_t Start(HttpRequest request, BytesHandler bytes, DoneHandler done);

  // Closes the transfer's connection; its handlers are not called any more.
  void Cancel(std::uint64_t id);

  // Moves bytes and calls handlers; waits up to `timeout_ms` for something to do.
  void Step(std::int64_t timeout_ms);

  // Ends the wait of a Step. Thread-safe.
  void Wake();

  // Ends Fetch, now and later, with kCancelled. Thread-safe.
  void Stop();

  // Runs all requests beside one another to their ends; replies in the order of requests.
  std::vector<Result<HttpReply>> Fetch(std::vector<HttpRequest> requests);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace buttress
