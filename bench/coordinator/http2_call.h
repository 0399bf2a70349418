// One gRPC call over a connection of its own, with as little work as redis-benchmark has for a
// client of its: the frames of what is sent are made beforehand, what comes back is only counted.
// HTTP/2 as RFC 9113 has it, gRPC's framing in DATA; no TLS, one message on its way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

class Http2Call {
 public:
  // Connects to host:port (numeric) and begins the call of `path`, e.g. "/package.Service/Method".
  static Result<std::unique_ptr<Http2Call>> Open(const std::string& address, std::string_view path);
  ~Http2Call();
  Http2Call(const Http2Call&) = delete;
  Http2Call& operator=(const Http2Call&) = delete;

  // The DATA frames of one message.
  static std::vector<std::string> Frames(std::string_view message);

  // Sends `frames`, which outlive the sending, as far as the peer's windows allow; the rest goes
  // out in Read. REQUIRES: all frames before are sent.
  Status Send(const std::vector<std::string>& frames);

  // Takes what has come; the messages that are complete. kUnavailable if the peer ended the call.
  Result<std::vector<std::string>> Read();

  int descriptor() const { return descriptor_; }

 private:
  explicit Http2Call(int descriptor) : descriptor_(descriptor) {}

  Status SendNow(std::string_view bytes);
  Status SendWaiting();
  Status TakeFrame(std::uint8_t type, std::uint8_t flags, std::string_view payload, bool of_call,
                   std::vector<std::string>& messages);
  void TakeSettings(std::string_view payload);

  const int descriptor_;
  std::int64_t connection_window_ = 65535;
  std::int64_t call_window_ = 65535;
  std::int64_t initial_window_ = 65535;
  const std::vector<std::string>* frames_ = nullptr;
  std::size_t next_frame_ = 0;
  std::string received_;  // frames that are not whole
  std::string message_;   // of the message that is not whole
};

}  // namespace buttress
