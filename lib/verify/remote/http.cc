// Rewards from a server: verifier http posts batches to run.reward.http.url (batch.h has both JSON
// objects; docs/verifiers.md an example).
//
// One deadline, run.reward.timeout_ms, holds for a batch with all its tries. Tried again: no
// connection, a broken one, and replies 408, 429 and 5xx. Any other reply than 200 is final. No
// proxy, no redirect; certificates are checked.
#include <curl/curl.h>

#include <algorithm>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/retry.h"
#include "lib/base/sync.h"
#include "lib/verify/extract.h"
#include "lib/verify/json/bounded_json.h"
#include "lib/verify/remote/batch.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxReplyBytes = kMaxReferenceBytes;
constexpr std::int64_t kMaxTokenBytes = 65536;
constexpr std::size_t kShownBytes = 200;

std::size_t Append(char* data, std::size_t size, std::size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMaxReplyBytes) return 0;
  text.append(data, size * count);
  return size * count;
}

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

using Easy = std::unique_ptr<CURL, EasyDeleter>;

struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

struct Reply {
  CURLcode code = CURLE_OK;
  long status = 0;
  std::string body;

  bool ok() const { return code == CURLE_OK && status == 200; }

  bool worth_another_try() const {
    if (code == CURLE_OK) return status == 408 || status == 429 || status >= 500;
    return code == CURLE_COULDNT_CONNECT || code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR ||
           code == CURLE_GOT_NOTHING || code == CURLE_COULDNT_RESOLVE_HOST ||
           code == CURLE_PARTIAL_FILE;
  }

  std::string why() const {
    if (code == CURLE_OPERATION_TIMEDOUT) return "timeout";
    if (code == CURLE_WRITE_ERROR)
      return "the reply has more than " + std::to_string(kMaxReplyBytes) + " bytes";
    if (code != CURLE_OK) return std::string("http: ") + curl_easy_strerror(code);
    return "http: status " + std::to_string(status) + ": " +
           std::string(FirstBytes(Trim(body), kShownBytes));
  }
};

class Http : public Verifier {
 public:
  Http(const RewardConfig& config, std::string token) : config_(config), token_(std::move(token)) {}

  Verdict Verify(const VerifyRequest& request) const override {
    return std::move(VerifyBatch({&request, 1}).front());
  }

  std::size_t batch() const override { return static_cast<std::size_t>(config_.http.batch); }

  std::vector<Verdict> VerifyBatch(std::span<const VerifyRequest> requests) const override {
    const std::int64_t deadline_ms = RealClock().MonotonicMs() + config_.timeout_ms;
    const std::string body = EncodeBatch(requests);
    Backoff backoff({}, static_cast<std::uint64_t>(deadline_ms));
    Easy easy = TakeConnection();
    Reply reply;
    while (true) {
      reply = Post(easy.get(), body, deadline_ms - RealClock().MonotonicMs());
      if (!reply.worth_another_try()) break;
      const std::int64_t wait_ms = backoff.NextMs();
      if (backoff.attempts() >= config_.http.attempts ||
          RealClock().MonotonicMs() + wait_ms >= deadline_ms)
        break;
      never_.WaitFor(std::chrono::milliseconds(wait_ms));
    }
    GiveBack(std::move(easy));
    return reply.ok() ? DecodeResults(reply.body, requests.size(), config_.correct_from)
                      : AllUnscorable(requests.size(), reply.why());
  }

 private:
  Reply Post(CURL* easy, const std::string& body, std::int64_t timeout_ms) const {
    Reply reply;
    if (timeout_ms <= 0) {
      reply.code = CURLE_OPERATION_TIMEDOUT;
      return reply;
    }
    HeaderList headers(curl_slist_append(nullptr, "Content-Type: application/json"));
    if (!token_.empty())
      headers.reset(
          curl_slist_append(headers.release(), ("Authorization: Bearer " + token_).c_str()));
    headers.reset(curl_slist_append(headers.release(), "Expect:"));
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, config_.http.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_ms));
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Append);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &reply.body);
    reply.code = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply.status);
    return reply;
  }

  // A handle keeps its connection, so handles are kept: as many as threads ever posted at once.
  Easy TakeConnection() const {
    MutexLock lock(mutex_);
    if (idle_.empty()) return Easy(curl_easy_init());
    Easy easy = std::move(idle_.back());
    idle_.pop_back();
    return easy;
  }

  void GiveBack(Easy easy) const {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(easy));
  }

  const RewardConfig config_;
  const std::string token_;
  const StopSignal never_;  // to wait on
  mutable Mutex mutex_;
  mutable std::vector<Easy> idle_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Verifier>> MakeHttp(const RewardConfig& config) {
  const HttpRewardConfig& http = config.http;
  if (!http.url.starts_with("http://") && !http.url.starts_with("https://"))
    return InvalidArgument("run.reward.http.url = '" + http.url +
                           "'; expected http://... or https://...");
  std::string token;
  if (!http.token_file.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(http.token_file, kMaxTokenBytes));
    token = Trim(text);
    if (token.empty() || token.find_first_of("\r\n") != std::string::npos)
      return InvalidArgument("run.reward.http.token_file = '" + http.token_file +
                             "' holds no token; expected one line");
  }
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) return Internal("libcurl does not start");
  return std::unique_ptr<Verifier>(std::make_unique<Http>(config, std::move(token)));
}

}  // namespace buttress
