#include "bench/coordinator/http2_call.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace buttress {
namespace {

enum FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8
};

constexpr std::uint8_t kAck = 1;  // END_STREAM on DATA and HEADERS
constexpr std::uint8_t kEndHeaders = 4;
constexpr std::size_t kFrameHeader = 9;
constexpr std::size_t kMaxFrame = 16384;
constexpr std::size_t kGrpcPrefix = 5;
constexpr std::uint32_t kCallId = 1;
constexpr std::uint16_t kInitialWindowSize = 4;

void Put32(std::uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

std::uint32_t Get(std::string_view bytes, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

std::string Frame(FrameType type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
  std::string frame;
  Put32(static_cast<std::uint32_t>(payload.size()) << 8 | type, frame);
  frame += static_cast<char>(flags);
  Put32(stream, frame);
  return frame.append(payload);
}

// HPACK: a literal that enters no table, not compressed.
void PutHeader(std::string_view name, std::string_view value, std::string& block) {
  block += '\0';
  block += static_cast<char>(name.size());
  block += name;
  block += static_cast<char>(value.size());
  block += value;
}

std::string Opening(const std::string& address, std::string_view path) {
  std::string block;
  PutHeader(":method", "POST", block);
  PutHeader(":scheme", "http", block);
  PutHeader(":path", path, block);
  PutHeader(":authority", address, block);
  PutHeader("te", "trailers", block);
  PutHeader("content-type", "application/grpc", block);
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, "") +
         Frame(kHeaders, kEndHeaders, kCallId, block);
}

Status SystemError(std::string_view what) {
  return Unavailable(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<Http2Call>> Http2Call::Open(const std::string& address,
                                                   std::string_view path) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1)
    return InvalidArgument(address + " is no numeric address");
  std::unique_ptr<Http2Call> call(new Http2Call(socket(AF_INET, SOCK_STREAM, 0)));
  const int on = 1;
  setsockopt(call->descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (connect(call->descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0)
    return SystemError(address);
  BUTTRESS_RETURN_IF_ERROR(call->SendNow(Opening(address, path)));
  return call;
}

Http2Call::~Http2Call() { close(descriptor_); }

std::vector<std::string> Http2Call::Frames(std::string_view message) {
  std::string prefixed(1, '\0');  // not compressed
  Put32(static_cast<std::uint32_t>(message.size()), prefixed);
  prefixed += message;
  std::vector<std::string> frames;
  for (std::size_t at = 0; at < prefixed.size(); at += kMaxFrame) {
    frames.push_back(Frame(kData, 0, kCallId, std::string_view(prefixed).substr(at, kMaxFrame)));
  }
  return frames;
}

Status Http2Call::Send(const std::vector<std::string>& frames) {
  frames_ = &frames;
  next_frame_ = 0;
  return SendWaiting();
}

Status Http2Call::SendWaiting() {
  while (frames_ != nullptr && next_frame_ < frames_->size()) {
    const std::string& frame = (*frames_)[next_frame_];
    const auto bytes = static_cast<std::int64_t>(frame.size() - kFrameHeader);
    if (bytes > std::min(connection_window_, call_window_)) return OkStatus();
    connection_window_ -= bytes;
    call_window_ -= bytes;
    ++next_frame_;
    BUTTRESS_RETURN_IF_ERROR(SendNow(frame));
  }
  return OkStatus();
}

// The peer reads at once, so waiting for room is short.
Status Http2Call::SendNow(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return SystemError("send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return OkStatus();
}

Result<std::vector<std::string>> Http2Call::Read() {
  std::array<char, 4096> buffer;
  const ssize_t count = recv(descriptor_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count == 0) return Unavailable("the connection was closed");
  if (count < 0 && errno != EAGAIN) return SystemError("recv");
  if (count > 0) received_.append(buffer.data(), static_cast<std::size_t>(count));
  std::vector<std::string> messages;
  std::string_view rest = received_;
  while (rest.size() >= kFrameHeader) {
    const std::size_t size = Get(rest, 3);
    if (rest.size() < kFrameHeader + size) break;
    const auto type = static_cast<std::uint8_t>(rest[3]);
    const bool of_call = Get(rest.substr(5), 4) == kCallId;
    BUTTRESS_RETURN_IF_ERROR(TakeFrame(type, static_cast<std::uint8_t>(rest[4]),
                                       rest.substr(kFrameHeader, size), of_call, messages));
    rest.remove_prefix(kFrameHeader + size);
  }
  received_.erase(0, received_.size() - rest.size());
  BUTTRESS_RETURN_IF_ERROR(SendWaiting());
  return messages;
}

Status Http2Call::TakeFrame(std::uint8_t type, std::uint8_t flags, std::string_view payload,
                            bool of_call, std::vector<std::string>& messages) {
  const bool ends = (type == kHeaders && (flags & kAck) != 0) || type == kReset || type == kGoAway;
  if (ends)
    return Unavailable("the coordinator ended the call, frame type " + std::to_string(type));
  if (type == kWindowUpdate) (of_call ? call_window_ : connection_window_) += Get(payload, 4);
  if (type == kPing && (flags & kAck) == 0) return SendNow(Frame(kPing, kAck, 0, payload));
  if (type == kSettings && (flags & kAck) == 0) {
    TakeSettings(payload);
    return SendNow(Frame(kSettings, kAck, 0, ""));
  }
  if (type != kData) return OkStatus();
  message_ += payload;
  while (message_.size() >= kGrpcPrefix) {
    const std::size_t size = Get(std::string_view(message_).substr(1), 4);
    if (message_.size() < kGrpcPrefix + size) break;
    messages.push_back(message_.substr(kGrpcPrefix, size));
    message_.erase(0, kGrpcPrefix + size);
  }
  return OkStatus();
}

void Http2Call::TakeSettings(std::string_view payload) {
  for (; payload.size() >= 6; payload.remove_prefix(6)) {
    if (Get(payload, 2) != kInitialWindowSize) continue;
    const std::int64_t window = Get(payload.substr(2), 4);
    call_window_ += window - initial_window_;
    initial_window_ = window;
  }
}

}  // namespace buttress
