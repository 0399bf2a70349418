// Verifier http: posts groups to run.reward.http.url. batch.h defines both JSON objects, and
// docs/verifiers.md shows an example.
//
// One deadline, run.reward.timeout_ms, covers a group with all its attempts. An attempt is repeated
// after a connection that fails or breaks and after replies 408, 429 and 5xx; every other reply
// except 200 is final.
#include <fmt/core.h>

#include <memory>
#include <utility>

#include "lib/base/net/retry.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/text/bounded_json.h"
#include "lib/base/thread/sync.h"
#include "lib/http/http_client.h"
#include "lib/verify/extract.h"
#include "lib/verify/remote/batch.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxTokenBytes = 65536;

bool IsWorthAnotherAttempt(const Result<HttpReply>& reply) {
  if (!reply.ok()) return reply.status().code() == StatusCode::kUnavailable;
  return reply->status == 408 || reply->status == 429 || reply->status >= 500;
}

// Why a reply that is not a 200 makes its group unscorable.
std::string FailureReason(const Result<HttpReply>& reply, std::int64_t timeout_ms) {
  if (reply.ok())
    return fmt::format("http: status {}: {}", reply->status,
                       FirstBytes(Trim(reply->body), kShownBytes));
  if (reply.status().code() == StatusCode::kDeadlineExceeded) return TimeoutReason(timeout_ms);
  return "http: " + reply.status().message();
}

class Http : public Verifier {
 public:
  Http(const RewardConfig& config, std::string token) : config_(config), token_(std::move(token)) {}

  Verdict Verify(const VerifyRequest& request) const override {
    return std::move(VerifyGroup({&request, 1}).front());
  }

  bool whole_groups() const override { return true; }

  // A request with all its attempts ends by its deadline.
  bool bounds_time() const override { return true; }

  std::vector<Verdict> VerifyGroup(std::span<const VerifyRequest> requests) const override {
    const std::int64_t deadline_ms = RealClock().MonotonicMs() + config_.timeout_ms;
    const std::string body = EncodeBatch(requests);
    Backoff backoff({}, static_cast<std::uint64_t>(deadline_ms));
    std::unique_ptr<HttpClient> client = BorrowClient();
    Result<HttpReply> reply = Post(*client, body, deadline_ms);
    while (IsWorthAnotherAttempt(reply)) {
      const std::int64_t wait_ms = backoff.NextMs();
      if (backoff.attempts() >= config_.http.attempts ||
          RealClock().MonotonicMs() + wait_ms >= deadline_ms)
        break;
      never_.WaitFor(std::chrono::milliseconds(wait_ms));
      reply = Post(*client, body, deadline_ms);
    }
    ReturnClient(std::move(client));
    return reply.ok() && reply->status == 200
               ? DecodeResults(reply->body, requests.size(), config_.correct_from)
               : AllUnscorable(requests.size(), FailureReason(reply, config_.timeout_ms));
  }

 private:
  Result<HttpReply> Post(HttpClient& client, const std::string& body,
                         std::int64_t deadline_ms) const {
    const std::int64_t left_ms = deadline_ms - RealClock().MonotonicMs();
    if (left_ms <= 0) return DeadlineExceeded("run.reward.timeout_ms has passed");
    HttpRequest request;
    request.url = config_.http.url;
    request.json = body;
    request.bearer = token_;
    request.reuse_connection = true;
    request.deadlines = {
        .connect_ms = left_ms, .first_byte_ms = left_ms, .idle_ms = left_ms, .whole_ms = left_ms};
    request.max_body_bytes = kMaxReferenceBytes;
    return std::move(client.Fetch({std::move(request)}).front());
  }

  // A client keeps its connection, so clients are kept: as many as threads posted at once.
  std::unique_ptr<HttpClient> BorrowClient() const {
    MutexLock lock(mutex_);
    if (idle_.empty()) return std::make_unique<HttpClient>();
    std::unique_ptr<HttpClient> client = std::move(idle_.back());
    idle_.pop_back();
    return client;
  }

  void ReturnClient(std::unique_ptr<HttpClient> client) const {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(client));
  }

  const RewardConfig config_;
  const std::string token_;
  const StopSignal never_;  // is never stopped; gives the timed wait between attempts
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<HttpClient>> idle_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Verifier>> MakeHttp(const RewardConfig& config) {
  const HttpRewardConfig& http = config.http;
  if (!http.url.starts_with("http://") && !http.url.starts_with("https://"))
    return InvalidArgument(
        fmt::format("run.reward.http.url = '{}'; expected http://... or https://...", http.url));
  std::string token;
  if (!http.token_file.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(http.token_file, kMaxTokenBytes));
    token = Trim(text);
    if (token.empty() || token.find_first_of("\r\n") != std::string::npos)
      return InvalidArgument(
          fmt::format("run.reward.http.token_file = '{}' contains no token; expected one line",
                      http.token_file));
  }
  return std::unique_ptr<Verifier>(std::make_unique<Http>(config, std::move(token)));
}

}  // namespace buttress
