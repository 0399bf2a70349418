#include "lib/http/http_client.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/report/check.h"

namespace buttress {
namespace {

// vLLM closes connections that were idle for 5 s, and a request sent at that moment is lost.
constexpr long kMaxIdleSeconds = 3;
constexpr std::int64_t kStepMs = 1000;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::int64_t NowMs() { return RealClock().MonotonicMs(); }

struct Transfer {
  std::uint64_t id = 0;
  HttpRequest request;
  BytesHandler bytes;
  DoneHandler done;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  HttpReply reply;
  Status aborted;  // why this side ended the transfer
  std::int64_t started_ms = 0;
  std::int64_t last_byte_ms = 0;  // 0: no byte has arrived

  ~Transfer() {
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }

  std::int64_t deadline_ms() const {
    const HttpDeadlines& deadlines = request.deadlines;
    const std::int64_t next_byte =
        last_byte_ms == 0 ? started_ms + deadlines.first_byte_ms : last_byte_ms + deadlines.idle_ms;
    return deadlines.whole_ms == 0 ? next_byte
                                   : std::min(next_byte, started_ms + deadlines.whole_ms);
  }

  // No deadline of this transfer passes earlier, whatever arrives after `now`.
  std::int64_t check_at_ms(std::int64_t now) const {
    return std::min(deadline_ms(), now + request.deadlines.idle_ms);
  }

  // The error of a transfer whose deadline has passed.
  Status Expired() const {
    const HttpDeadlines& deadlines = request.deadlines;
    const auto error = [&](const char* what, std::int64_t ms, const char* which) {
      return DeadlineExceeded(
          fmt::format("{}: {} in {} ms ({} deadline)", request.url, what, ms, which));
    };
    if (deadlines.whole_ms != 0 && deadline_ms() == started_ms + deadlines.whole_ms)
      return error("no whole reply", deadlines.whole_ms, "whole-reply");
    if (last_byte_ms == 0) return error("no byte", deadlines.first_byte_ms, "first-byte");
    return error("no further byte", deadlines.idle_ms, "idle");
  }

  // Returns the number of bytes consumed; fewer than all makes libcurl end the transfer.
  std::size_t Receive(std::string_view piece) {
    last_byte_ms = NowMs();
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply.status);
    if (bytes && reply.status == 200) {
      aborted = bytes(piece);
    } else if (reply.body.size() + piece.size() > request.max_body_bytes) {
      aborted = ResourceExhausted(
          fmt::format("{}: the reply has more than {} bytes", request.url, request.max_body_bytes));
    } else {
      reply.body.append(piece);
    }
    return aborted.ok() ? piece.size() : 0;
  }

  Result<HttpReply> Outcome(CURLcode code) {
    if (!aborted.ok()) return aborted;
    if (code == CURLE_OK) {
      curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply.status);
      return std::move(reply);
    }
    const std::string why = request.url + ": " + curl_easy_strerror(code);
    switch (code) {
      case CURLE_OPERATION_TIMEDOUT:
        return DeadlineExceeded(
            fmt::format("{} (connecting, {} ms)", why, request.deadlines.connect_ms));
      case CURLE_URL_MALFORMAT:
      case CURLE_UNSUPPORTED_PROTOCOL:
        return InvalidArgument(why);
      case CURLE_PEER_FAILED_VERIFICATION:
        return FailedPrecondition(why);
      default:
        return Unavailable(why);
    }
  }
};

std::size_t OnBytes(char* data, std::size_t size, std::size_t count, void* transfer) {
  return static_cast<Transfer*>(transfer)->Receive({data, size * count});
}

void AddHeader(Transfer& transfer, const std::string& header) {
  transfer.headers = curl_slist_append(transfer.headers, header.c_str());
}

void Configure(Transfer& transfer) {
  const HttpRequest& request = transfer.request;
  CURL* easy = transfer.easy = curl_easy_init();
  BUTTRESS_CHECK(easy != nullptr, "curl_easy_init");
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(request.deadlines.connect_ms));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  if (request.json.has_value()) {
    // libcurl repeats a request in silence if a reused connection closes before the first byte. A
    // vLLM server that restarted in between would then answer with other weights, and no one would
    // know.
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request.reuse_connection ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.json->data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.json->size()));
    AddHeader(transfer, "Content-Type: application/json");
    AddHeader(transfer, "Expect:");
  }
  if (!request.bearer.empty()) AddHeader(transfer, "Authorization: Bearer " + request.bearer);
  if (!request.id.empty()) AddHeader(transfer, "X-Request-Id: " + request.id);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers);
}

// Initialises libcurl's process-wide state once.
void InitCurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  BUTTRESS_CHECK(code == CURLE_OK, "curl_global_init");
}

}  // namespace

struct HttpClient::Impl {
  CURLM* multi = nullptr;
  std::uint64_t next_id = 1;
  std::atomic<bool> stopped = false;
  std::map<std::uint64_t, std::unique_ptr<Transfer>> transfers;
  std::int64_t check_at_ms = kNever;  // no deadline passes earlier

  void Remove(std::map<std::uint64_t, std::unique_ptr<Transfer>>::iterator it) {
    curl_multi_remove_handle(multi, it->second->easy);
    transfers.erase(it);
  }

  void End(std::uint64_t id, CURLcode code) {
    const auto it = transfers.find(id);
    BUTTRESS_CHECK(it != transfers.end(), "libcurl ended an unknown transfer");
    const DoneHandler done = std::move(it->second->done);
    Result<HttpReply> outcome = it->second->Outcome(code);
    Remove(it);
    done(std::move(outcome));
  }

  void EndExpired() {
    const std::int64_t now = NowMs();
    if (now < check_at_ms) return;
    check_at_ms = kNever;
    std::vector<Transfer*> expired;
    for (const auto& [id, transfer] : transfers) {
      if (transfer->deadline_ms() <= now) {
        expired.push_back(transfer.get());
      } else {
        check_at_ms = std::min(check_at_ms, transfer->check_at_ms(now));
      }
    }
    for (Transfer* transfer : expired) {
      transfer->aborted = transfer->Expired();
      End(transfer->id, CURLE_OK);
    }
  }
};

HttpClient::HttpClient() : impl_(std::make_unique<Impl>()) {
  InitCurl();
  impl_->multi = curl_multi_init();
  BUTTRESS_CHECK(impl_->multi != nullptr, "curl_multi_init");
}

HttpClient::~HttpClient() {
  while (!impl_->transfers.empty()) impl_->Remove(impl_->transfers.begin());
  curl_multi_cleanup(impl_->multi);
}

std::uint64_t HttpClient::Start(HttpRequest request, BytesHandler bytes, DoneHandler done) {
  auto transfer = std::make_unique<Transfer>();
  transfer->request = std::move(request);
  transfer->bytes = std::move(bytes);
  transfer->done = std::move(done);
  transfer->started_ms = NowMs();
  Configure(*transfer);
  BUTTRESS_CHECK(curl_multi_add_handle(impl_->multi, transfer->easy) == CURLM_OK,
                 "curl_multi_add_handle");
  const std::uint64_t id = transfer->id = impl_->next_id++;
  impl_->check_at_ms = std::min(impl_->check_at_ms, transfer->check_at_ms(transfer->started_ms));
  impl_->transfers.emplace(id, std::move(transfer));
  return id;
}

void HttpClient::Cancel(std::uint64_t id) {
  const auto it = impl_->transfers.find(id);
  if (it != impl_->transfers.end()) impl_->Remove(it);
}

void HttpClient::Step(std::int64_t timeout_ms) {
  const std::int64_t wait_ms = std::min(timeout_ms, impl_->check_at_ms - NowMs());
  int running = 0;
  curl_multi_perform(impl_->multi, &running);
  if (running == static_cast<int>(impl_->transfers.size())) {
    curl_multi_poll(impl_->multi, nullptr, 0,
                    static_cast<int>(std::clamp<std::int64_t>(wait_ms, 0, kStepMs)), nullptr);
    curl_multi_perform(impl_->multi, &running);
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(impl_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    impl_->End(reinterpret_cast<const Transfer*>(transfer)->id, message->data.result);
  }
  impl_->EndExpired();
}

void HttpClient::Wake() { curl_multi_wakeup(impl_->multi); }

void HttpClient::Stop() {
  impl_->stopped = true;
  Wake();
}

std::vector<Result<HttpReply>> HttpClient::Fetch(std::vector<HttpRequest> requests) {
  std::vector<Result<HttpReply>> replies(requests.size(), Result<HttpReply>(Cancelled("stopped")));
  std::size_t open = requests.size();
  std::vector<std::uint64_t> ids;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ids.push_back(
        Start(std::move(requests[i]), nullptr, [&replies, &open, i](Result<HttpReply> reply) {
          replies[i] = std::move(reply);
          --open;
        }));
  }
  while (open > 0 && !impl_->stopped) Step(kStepMs);
  for (const std::uint64_t id : ids) Cancel(id);  // the transfers that Stop left unfinished
  return replies;
}

}  // namespace buttress
