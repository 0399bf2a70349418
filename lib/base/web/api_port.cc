#include "lib/base/web/api_port.h"

#include <absl/strings/ascii.h>
#include <fmt/core.h>
#include <microhttpd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/net/address.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/fd.h"
#include "lib/base/thread/sync.h"

namespace buttress {
namespace {

constexpr unsigned kSilentSeconds = 60;     // a connection that reads or sends nothing is closed
constexpr std::size_t kBlockBytes = 65536;  // sent at once
constexpr std::uint64_t kStopEvent = 0;
constexpr int kLookMs = 200;  // between two looks for requests that are late

using Headers = std::map<std::string, std::string>;

// libmicrohttpd prescribes the signature.
MHD_Result AddValue(void* to, MHD_ValueKind kind, const char* name, const char* value) {
  static_cast<Headers*>(to)->emplace(
      kind == MHD_HEADER_KIND ? absl::AsciiStrToLower(name) : std::string(name),
      value == nullptr ? "" : value);
  return MHD_YES;
}

std::string ValueOf(const Headers& values, const std::string& name) {
  const auto it = values.find(name);
  return it == values.end() ? "" : it->second;
}

// An error that ends a call before anything reads it, in the form of OpenAI's API.
struct Refusal {
  unsigned http = 0;
  std::string_view code;
  std::string message;
};

// A request and its answer. The thread of the daemon reads the request and sends the answer, which
// any thread makes. While there is nothing to send the connection is suspended.
class OpenCall final : public ApiCall, public std::enable_shared_from_this<OpenCall> {
 public:
  OpenCall(MHD_Connection* connection, std::uint64_t id, const ApiPortOptions& options,
           const char* method, const char* path, std::string share)
      : id_(id),
        share_(std::move(share)),
        deadline_ms_(RealClock().MonotonicMs() + options.max_receive_ms),
        max_body_bytes_(static_cast<std::size_t>(options.max_body_bytes)),
        max_unread_bytes_(static_cast<std::size_t>(options.max_unread_bytes)),
        method_(method),
        path_(path),
        socket_(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd),
        connection_(connection) {
    MHD_get_connection_values(connection, MHD_HEADER_KIND, &AddValue, &headers_);
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &AddValue, &arguments_);
  }

  std::uint64_t id() const { return id_; }

  int socket() const { return socket_; }

  const std::string& share() const { return share_; }

  std::string_view method() const override { return method_; }

  std::string_view path() const override { return path_; }

  std::string_view body() const override { return body_; }

  std::string Header(std::string_view name) const override {
    return ValueOf(headers_, absl::AsciiStrToLower(std::string(name)));
  }

  std::string Argument(std::string_view name) const override {
    return ValueOf(arguments_, std::string(name));
  }

  void SetHeader(std::string_view name, std::string_view value) override {
    MutexLock lock(mutex_);
    reply_headers_.emplace_back(name, value);
  }

  void Reply(unsigned code, std::string_view type, std::string body) override {
    MutexLock lock(mutex_);
    if (code_ != 0) return;
    code_ = code;
    reply_headers_.emplace_back("Content-Type", type);
    unread_ = std::move(body);
    whole_ = ended_ = true;
    Resume();
  }

  void Begin(unsigned code, std::string_view type) override {
    MutexLock lock(mutex_);
    if (code_ != 0) return;
    code_ = code;
    reply_headers_.emplace_back("Content-Type", type);
    Resume();
  }

  void Write(std::string_view piece) override {
    MutexLock lock(mutex_);
    if (code_ == 0 || ended_ || left_) return;
    if (unread_.size() - sent_ + piece.size() > max_unread_bytes_) return Break();
    unread_.append(piece);
    Resume();
  }

  void End() override {
    MutexLock lock(mutex_);
    if (code_ == 0) return;
    ended_ = true;
    Resume();
  }

  void OnGone(std::function<void()> gone) override {
    {
      MutexLock lock(mutex_);
      if (connection_ != nullptr) gone_ = std::move(gone);
      if (connection_ != nullptr || ended_) return;
    }
    gone();
  }

  // Closes the connection unless the answer is complete.
  void Leave() {
    MutexLock lock(mutex_);
    if (!ended_) Break();
  }

  // Closes the connection with a 408 if the request is not complete in time. The daemon cannot
  // answer a request that it still reads, and has sent nothing.
  void LeaveIfLate(std::int64_t now_ms) {
    MutexLock lock(mutex_);
    if (received_ || left_ || connection_ == nullptr || now_ms < deadline_ms_) return;
    constexpr std::string_view kLate =
        "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    ::send(socket_, kLate.data(), kLate.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    Break();
  }

  // The functions below are of the thread of the daemon.

  // The answer will be this error. The rest of the body is read and forgotten: a client that still
  // sends sees no answer.
  void Refuse(Refusal refusal) {
    if (!refusal_) refusal_ = std::move(refusal);
    body_ = std::string();
  }

  const std::optional<Refusal>& refusal() const { return refusal_; }

  void AddToBody(std::string_view bytes) {
    if (body_.size() + bytes.size() > max_body_bytes_)
      Refuse({MHD_HTTP_CONTENT_TOO_LARGE, "body_too_large",
              fmt::format("the body has more than {} bytes", max_body_bytes_)});
    if (!refusal_) body_.append(bytes);
  }

  // The request is complete. Returns true once.
  bool BeginAnswer() {
    MutexLock lock(mutex_);
    return !std::exchange(received_, true);
  }

  // Queues the answer that there is, or suspends the connection until there is one.
  MHD_Result Answer() {
    MutexLock lock(mutex_);
    if (left_) return MHD_NO;
    if (code_ == 0) {
      Suspend();
      return MHD_YES;
    }
    MHD_Response* const response =
        whole_
            ? MHD_create_response_from_buffer(unread_.size(), unread_.data(), MHD_RESPMEM_MUST_COPY)
            : MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kBlockBytes, &ReadPiece, this,
                                                nullptr);
    if (response == nullptr) return MHD_NO;
    for (const auto& [name, value] : reply_headers_)
      MHD_add_response_header(response, name.c_str(), value.c_str());
    const MHD_Result queued = MHD_queue_response(connection_, code_, response);
    MHD_destroy_response(response);
    return queued;
  }

  // The connection has ended, or waits for the next request.
  void Finish() {
    std::function<void()> gone;
    {
      MutexLock lock(mutex_);
      connection_ = nullptr;
      left_ = true;
      // A client that closes at once behind the last byte looks like one that left before it.
      if (!ended_) gone.swap(gone_);
      gone_ = nullptr;
    }
    if (gone) gone();
  }

 private:
  static ssize_t ReadPiece(void* self, std::uint64_t, char* to, std::size_t most) {
    return static_cast<OpenCall*>(self)->Read(to, most);
  }

  ssize_t Read(char* to, std::size_t most) {
    MutexLock lock(mutex_);
    if (left_) return MHD_CONTENT_READER_END_WITH_ERROR;
    const std::size_t count = std::min(most, unread_.size() - sent_);
    if (count == 0) {
      if (ended_) return MHD_CONTENT_READER_END_OF_STREAM;
      Suspend();
      return 0;
    }
    std::memcpy(to, unread_.data() + sent_, count);
    sent_ += count;
    if (sent_ == unread_.size() || sent_ >= max_unread_bytes_) {
      unread_.erase(0, sent_);
      sent_ = 0;
    }
    return static_cast<ssize_t>(count);
  }

  // The daemon finds the connection closed, whether it waits for the client or is suspended.
  void Break() REQUIRES(mutex_) {
    left_ = true;
    if (connection_ != nullptr) ::shutdown(socket_, SHUT_RDWR);
    Resume();
  }

  void Suspend() REQUIRES(mutex_) {
    suspended_ = true;
    MHD_suspend_connection(connection_);
  }

  void Resume() REQUIRES(mutex_) {
    if (!std::exchange(suspended_, false)) return;
    MHD_resume_connection(connection_);
  }

  const std::uint64_t id_;
  const std::string share_;
  const std::int64_t deadline_ms_;  // of the request
  const std::size_t max_body_bytes_;
  const std::size_t max_unread_bytes_;
  const std::string method_;
  const std::string path_;
  const int socket_;
  Headers headers_;  // names in lower case
  Headers arguments_;
  std::string body_;
  std::optional<Refusal> refusal_;

  Mutex mutex_;
  bool received_ GUARDED_BY(mutex_) = false;       // the whole request
  MHD_Connection* connection_ GUARDED_BY(mutex_);  // null at the end
  bool suspended_ GUARDED_BY(mutex_) = false;
  bool left_ GUARDED_BY(mutex_) = false;   // no more is sent
  unsigned code_ GUARDED_BY(mutex_) = 0;   // of the answer; 0: none yet
  bool whole_ GUARDED_BY(mutex_) = false;  // the answer has a length
  bool ended_ GUARDED_BY(mutex_) = false;  // unread_ is the rest of it
  std::vector<std::pair<std::string, std::string>> reply_headers_ GUARDED_BY(mutex_);
  std::string unread_ GUARDED_BY(mutex_);
  std::size_t sent_ GUARDED_BY(mutex_) = 0;  // bytes of unread_
  std::function<void()> gone_ GUARDED_BY(mutex_);
};

}  // namespace

// The daemon does not look at suspended connections, so a second thread watches for clients that
// leave.
class MhdApiPort final : public ApiPort {
 public:
  MhdApiPort(ApiPortOptions options, ApiHandler handler)
      : options_(std::move(options)), handler_(std::move(handler)) {}

  ~MhdApiPort() override {
    // The daemon ends only without suspended connections.
    std::vector<std::shared_ptr<OpenCall>> open;
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      for (const auto& [id, call] : calls_) open.push_back(call);
    }
    for (const auto& call : open) call->Leave();
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
    ::eventfd_write(stop_.get(), 1);
    if (watcher_.joinable()) watcher_.join();
  }

  Status Listen() {
    BUTTRESS_ASSIGN_OR_RETURN(const auto resolved, ResolveListen(options_.address));
    watch_ = OwnedFd(::epoll_create1(EPOLL_CLOEXEC));
    stop_ = OwnedFd(::eventfd(0, EFD_CLOEXEC));
    epoll_event event = {.events = EPOLLIN, .data = {.u64 = kStopEvent}};
    if (::epoll_ctl(watch_.get(), EPOLL_CTL_ADD, stop_.get(), &event) != 0)
      return Unavailable(fmt::format("cannot watch connections: {}", std::strerror(errno)));
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    if (resolved->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    errno = 0;
    daemon_ = MHD_start_daemon(
        flags, 0, nullptr, nullptr, &MhdApiPort::Receive, this, MHD_OPTION_SOCK_ADDR,
        resolved->ai_addr, MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(options_.connections),
        MHD_OPTION_CONNECTION_TIMEOUT, kSilentSeconds, MHD_OPTION_NOTIFY_COMPLETED,
        &MhdApiPort::Completed, this, MHD_OPTION_END);
    if (daemon_ == nullptr) {
      return Unavailable(fmt::format("cannot serve {} on {}: {}; choose another port, or 0 for any",
                                     options_.what, options_.address, std::strerror(errno)));
    }
    port_ = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port;
    watcher_ = std::thread([this] { Watch(); });
    return OkStatus();
  }

  int port() const override { return port_; }

  std::int64_t open() const override {
    MutexLock lock(mutex_);
    return std::ssize(calls_);
  }

 private:
  // libmicrohttpd prescribes the signatures. Receive is called for the head of a request, for each
  // part of its body, at its end, and again after each resumption until an answer is queued.
  static MHD_Result Receive(void* self, MHD_Connection* connection, const char* path,
                            const char* method, const char*, const char* bytes, std::size_t* size,
                            void** context) {
    auto* const port = static_cast<MhdApiPort*>(self);
    auto* const call = static_cast<OpenCall*>(*context);
    if (call == nullptr) return port->Open(connection, path, method, context);
    if (*size > 0) {
      call->AddToBody({bytes, std::exchange(*size, 0)});
      return MHD_YES;
    }
    return port->Answer(*call);
  }

  static void Completed(void* self, MHD_Connection*, void** context, MHD_RequestTerminationCode) {
    if (*context == nullptr) return;
    static_cast<MhdApiPort*>(self)->Close(static_cast<OpenCall*>(*context)->id());
    *context = nullptr;
  }

  MHD_Result Open(MHD_Connection* connection, const char* path, const char* method,
                  void** context) {
    std::shared_ptr<OpenCall> call;
    const std::string share = options_.share_of ? options_.share_of(path) : "";
    {
      MutexLock lock(mutex_);
      if (stopping_) return MHD_NO;
      const std::uint64_t id = ++last_id_;
      call = std::make_shared<OpenCall>(connection, id, options_, method, path, share);
      calls_.emplace(id, call);
      if (options_.share_of && ++open_of_share_[share] > options_.max_of_share)
        call->Refuse({MHD_HTTP_TOO_MANY_REQUESTS, "too_many_calls",
                      fmt::format("{} calls are open; wait for an answer", options_.max_of_share)});
    }
    *context = call.get();
    epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data = {.u64 = call->id()}};
    // A connection that is kept for the next request is watched already.
    if (::epoll_ctl(watch_.get(), EPOLL_CTL_ADD, call->socket(), &event) != 0 &&
        ::epoll_ctl(watch_.get(), EPOLL_CTL_MOD, call->socket(), &event) != 0)
      return MHD_NO;
    return MHD_YES;
  }

  MHD_Result Answer(OpenCall& call) const {
    if (call.BeginAnswer()) {
      if (call.refusal()) {
        const Refusal& refusal = *call.refusal();
        if (refusal.http == MHD_HTTP_TOO_MANY_REQUESTS) call.SetHeader("Retry-After", "1");
        call.Reply(refusal.http, "application/json",
                   fmt::format(R"({{"error":{{"message":"{}","type":"invalid_request_error",)"
                               R"("param":null,"code":"{}"}}}})",
                               refusal.message, refusal.code));
      } else {
        handler_({&call, [held = call.shared_from_this()](ApiCall*) { held->Leave(); }});
      }
    }
    return call.Answer();
  }

  void Close(std::uint64_t id) {
    std::shared_ptr<OpenCall> call;
    {
      MutexLock lock(mutex_);
      call = std::move(calls_.extract(id).mapped());
      const auto share = open_of_share_.find(call->share());
      if (share != open_of_share_.end() && --share->second == 0) open_of_share_.erase(share);
    }
    call->Finish();
  }

  void Watch() {
    std::array<epoll_event, 64> events = {};
    while (true) {
      const int count = ::epoll_wait(watch_.get(), events.data(), events.size(), kLookMs);
      if (count < 0 && errno != EINTR) return;
      EndLateCalls();
      for (int i = 0; i < count; ++i) {
        const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
        if (id == kStopEvent) return;
        std::shared_ptr<OpenCall> call;
        {
          MutexLock lock(mutex_);
          if (const auto it = calls_.find(id); it != calls_.end()) call = it->second;
        }
        if (call) call->Leave();
      }
    }
  }

  void EndLateCalls() {
    const std::int64_t now_ms = RealClock().MonotonicMs();
    if (now_ms - looked_ms_ < kLookMs) return;
    looked_ms_ = now_ms;
    MutexLock lock(mutex_);
    for (const auto& [id, call] : calls_) call->LeaveIfLate(now_ms);
  }

  const ApiPortOptions options_;
  const ApiHandler handler_;
  std::int64_t looked_ms_ = 0;  // for late calls, by the watcher
  OwnedFd watch_;               // epoll of the sockets with open calls
  OwnedFd stop_;                // eventfd that ends the watcher
  MHD_Daemon* daemon_ = nullptr;
  int port_ = 0;
  std::thread watcher_;
  mutable Mutex mutex_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::uint64_t last_id_ GUARDED_BY(mutex_) = kStopEvent;
  std::unordered_map<std::uint64_t, std::shared_ptr<OpenCall>> calls_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::int64_t> open_of_share_ GUARDED_BY(mutex_);
};

Result<std::unique_ptr<ApiPort>> ApiPort::Start(const ApiPortOptions& options, ApiHandler handler) {
  auto port = std::make_unique<MhdApiPort>(options, std::move(handler));
  BUTTRESS_RETURN_IF_ERROR(port->Listen());
  return std::unique_ptr<ApiPort>(std::move(port));
}

}  // namespace buttress
