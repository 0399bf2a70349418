#include "rollout_worker/scoring_pool.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "lib/base/bounded_queue.h"
#include "lib/base/sync.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kIdleWait(200);
constexpr std::size_t kMaxAnswerBytes = 256;
constexpr std::string_view kTimeout = "timeout";

// The series of one verifier.
struct VerifierMetrics {
  VerifierMetrics(Metrics& metrics, const std::string& verifier)
      : correct(Results(metrics, verifier, "correct")),
        wrong(Results(metrics, verifier, "wrong")),
        unscorable(Results(metrics, verifier, "unscorable")),
        timeout(Results(metrics, verifier, kTimeout)),
        seconds(metrics.Histogram("buttress_worker_verifier_seconds",
                                  "Time to decode and verify one completion.",
                                  {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10},
                                  {{"verifier", verifier}})) {}

  static prometheus::Counter& Results(Metrics& metrics,
                                      const std::string& verifier,
                                      std::string_view result) {
    return metrics.Counter(
        "buttress_worker_verifier_results_total",
        "Completions by verifier and result; a timeout is not counted as unscorable too.",
        {{"verifier", verifier}, {"result", std::string(result)}});
  }

  void Count(const Verdict& verdict) {
    switch (verdict.outcome) {
      case Outcome::kCorrect:
        return correct.Increment();
      case Outcome::kWrong:
        return wrong.Increment();
      default:
        return (verdict.unscorable_reason == kTimeout ? timeout : unscorable).Increment();
    }
  }

  prometheus::Counter& correct;
  prometheus::Counter& wrong;
  prometheus::Counter& unscorable;
  prometheus::Counter& timeout;
  prometheus::Histogram& seconds;
};

// What the model wrote: without the stop token that ended it, when that is a plain token. Special tokens are skipped in decoding.
std::span<const std::int32_t> ResponseTokens(const Completion& completion) {
  std::span<const std::int32_t> tokens = completion.token_ids;
  const std::vector<std::int32_t>& stops = completion.sampling.stop_token_ids;
  if (completion.finish_reason != FinishReason::kStop || tokens.empty()) return tokens;
  const bool stopped = std::find(stops.begin(), stops.end(), tokens.back()) != stops.end();
  return stopped ? tokens.first(tokens.size() - 1) : tokens;
}

class ThreadedScoringPool : public ScoringPool {
 public:
  ThreadedScoringPool(std::unique_ptr<const VerifierSet> verifiers,
                      const Tokenizer& tokenizer,
                      const ScoringOptions& options,
                      Metrics& metrics,
                      const Clock& clock)
      : verifiers_(std::move(verifiers)),
        tokenizer_(tokenizer),
        options_(options),
        clock_(clock),
        requests_(options.capacity),
        results_(options.capacity) {
    for (const std::string& name : verifiers_->names())
      metrics_.emplace(name, VerifierMetrics(metrics, name));
    for (std::size_t i = 0; i < options.threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
    }
  }

  ~ThreadedScoringPool() override {
    for (std::jthread& thread : threads_) thread.request_stop();
    requests_.Close();
    threads_.clear();
  }

  Status Submit(ScoreRequest& request) override {
    if (++inside_ > options_.capacity) {
      --inside_;
      return ResourceExhausted("scoring pool holds " + std::to_string(options_.capacity) +
                               " completions; take results first");
    }
    const bool pushed = requests_.Push(request, std::chrono::milliseconds(0));
    BUTTRESS_CHECK(pushed, "the queue has room for all that are inside");
    return OkStatus();
  }

  std::vector<ScoredCompletion> Poll(std::chrono::milliseconds timeout) override {
    std::vector<ScoredCompletion> scored;
    for (auto one = results_.Pop(timeout); one; one = results_.Pop(std::chrono::milliseconds(0))) {
      scored.push_back(*std::move(one));
    }
    inside_ -= scored.size();
    return scored;
  }

  std::size_t inside() const override { return inside_; }

 private:
  void Work(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::optional<ScoreRequest> request = requests_.Pop(kIdleWait);
      if (!request) continue;
      Score(*request);
      ScoredCompletion scored{request->id, std::move(request->completion)};
      const bool pushed = results_.Push(scored, std::chrono::milliseconds(0));
      BUTTRESS_CHECK(pushed, "the queue has room for all that are inside");
    }
  }

  void Score(ScoreRequest& request) {
    const std::string name(verifiers_->NameFor(request.source));
    VerifierMetrics& metrics = metrics_.at(name);
    const std::int64_t started_ms = clock_.MonotonicMs();
    const double started = MonotonicSeconds();
    Verdict verdict = Judge(request);
    metrics.seconds.Observe(MonotonicSeconds() - started);
    if (clock_.MonotonicMs() - started_ms > options_.timeout.count())
      verdict = Unscorable(std::string(kTimeout));
    metrics.Count(verdict);
    Completion& completion = request.completion;
    completion.outcome = verdict.outcome;
    completion.raw_reward = verdict.raw_reward;
    completion.reward = verdict.raw_reward;
    completion.components.clear();
    if (verdict.outcome != Outcome::kUnscorable)
      completion.components.push_back({.name = name, .value = verdict.raw_reward, .weight = 1});
    completion.unscorable_reason = std::move(verdict.unscorable_reason);
    completion.extracted_answer = FirstBytes(verdict.given, kMaxAnswerBytes);
  }

  Verdict Judge(const ScoreRequest& request) const {
    const Completion& completion = request.completion;
    if (completion.finish_reason != FinishReason::kStop &&
        completion.finish_reason != FinishReason::kLength) {
      return Unscorable("generation did not finish");
    }
    const Result<std::string> response =
        tokenizer_.Decode(ResponseTokens(completion), SpecialTokens::kSkip);
    if (!response.ok()) return Unscorable("decode: " + response.status().message());
    Verdict verdict = verifiers_->For(request.source)
                          .Verify({.prompt = request.prompt,
                                   .response = *response,
                                   .answer = request.answer,
                                   .extra_json = request.extra_json,
                                   .truncated = completion.finish_reason == FinishReason::kLength});
    if (!std::isfinite(verdict.raw_reward))
      return Unscorable("verifier gave a reward that is not finite");
    return verdict;
  }

  const std::unique_ptr<const VerifierSet> verifiers_;
  const Tokenizer& tokenizer_;
  const ScoringOptions options_;
  const Clock& clock_;
  std::map<std::string, VerifierMetrics> metrics_;
  BoundedQueue<ScoreRequest> requests_;
  BoundedQueue<ScoredCompletion> results_;
  std::atomic<std::size_t> inside_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace

std::unique_ptr<ScoringPool> ScoringPool::Start(std::unique_ptr<const VerifierSet> verifiers,
                                                const Tokenizer& tokenizer,
                                                const ScoringOptions& options,
                                                Metrics& metrics,
                                                const Clock& clock) {
  return std::make_unique<ThreadedScoringPool>(
      std::move(verifiers), tokenizer, options, metrics, clock);
}

}  // namespace buttress
