// An HTTP server for calls that take time: a call is answered from any thread, whole or piece by
// piece (server-sent events), while one thread serves all connections. Its own errors have the form
// of OpenAI's API.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// A request that is open. Thread-safe. Dropping the last reference before the answer is complete
// closes the connection.
class ApiCall {
 public:
  virtual ~ApiCall() = default;

  virtual std::string_view method() const = 0;  // "GET", "POST"
  virtual std::string_view path() const = 0;    // decoded, without the query
  virtual std::string_view body() const = 0;

  // Return the value of that name, or an empty string.
  virtual std::string Header(std::string_view name) const = 0;    // names are without case
  virtual std::string Argument(std::string_view name) const = 0;  // of the query, decoded

  // Answers the call as a whole. A call is answered once; later answers are ignored.
  virtual void Reply(unsigned code, std::string_view type, std::string body) = 0;

  // Adds a header to the answer that follows, such as Retry-After.
  virtual void SetHeader(std::string_view name, std::string_view value) = 0;

  // Answers piece by piece: Begin once, then Write, then End. Pieces that the client does not read
  // are kept, up to a bound; beyond it the connection is closed.
  virtual void Begin(unsigned code, std::string_view type) = 0;
  virtual void Write(std::string_view piece) = 0;
  virtual void End() = 0;

  // Calls `gone` on the thread of the port if the client leaves, or the port ends, before Reply or
  // End; at once if it has left. `gone` must hold no reference to the call.
  virtual void OnGone(std::function<void()> gone) = 0;
};

// Runs on the thread of the port when the body is complete, and returns soon; must not throw.
using ApiHandler = std::function<void(std::shared_ptr<ApiCall>)>;

struct ApiPortOptions {
  std::string address = {};  // "127.0.0.1:8000"; port 0 picks a free one
  std::string what = {};     // is served, for messages
  std::int64_t max_body_bytes = std::int64_t{16} << 20;  // of a request; a longer one gets a 413
  std::int64_t max_receive_ms = 60000;  // of a request from its head on; a later one gets a 408
  std::int64_t max_unread_bytes = std::int64_t{8} << 20;  // of pieces that a client does not read
  std::int64_t connections = 1024;                        // at once
  // Calls whose paths have the same share are one client's. At most `max_of_share` of them are open
  // at once, from the heads of the requests to the ends of the answers; others get a 429. Null:
  // without this bound.
  std::function<std::string(std::string_view path)> share_of = nullptr;
  std::int64_t max_of_share = 0;
};

class ApiPort {
 public:
  // kUnavailable if the port is taken.
  static Result<std::unique_ptr<ApiPort>> Start(const ApiPortOptions& options, ApiHandler handler);

  // Closes all connections; calls that are open may still be answered, to nobody.
  virtual ~ApiPort() = default;

  virtual int port() const = 0;

  // Calls from the heads of their requests until the kernel has taken the whole of their answers.
  virtual std::int64_t open() const = 0;
};

}  // namespace buttress
