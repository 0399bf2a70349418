#include "rollout_worker/scoring/scoring_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/report/log.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/base/thread/bounded_queue.h"
#include "lib/base/thread/sync.h"
#include "lib/config/reward_text.h"
#include "lib/verify/extract.h"
#include "rollout_worker/scoring/response_text.h"
#include "rollout_worker/scoring/slow_rewards.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kIdleWait(200);

bool TimedOut(const VerdictPart& part) {
  return part.unscorable_reason.starts_with(kTimeoutReason);
}

// The metrics of one verifier.
struct VerifierMetrics {
  VerifierMetrics(Metrics& metrics, const std::string& verifier)
      : correct(Results(metrics, verifier, "correct")),
        wrong(Results(metrics, verifier, "wrong")),
        unscorable(Results(metrics, verifier, "unscorable")),
        timeout(Results(metrics, verifier, kTimeoutReason)),
        not_applicable(Results(metrics, verifier, "not_applicable")),
        seconds(metrics.Histogram("buttress_worker_verifier_seconds",
                                  "Time to verify one completion; of a group, its share.",
                                  {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10}, {{"verifier", verifier}})) {
  }

  static prometheus::Counter& Results(Metrics& metrics, const std::string& verifier,
                                      std::string_view result) {
    return metrics.Counter(
        "buttress_worker_verifier_results_total",
        "Completions by verifier and result; each has one result, of which timeout and "
        "not_applicable (a part that is left out of its sum) are no unscorable.",
        {{"verifier", verifier}, {"result", std::string(result)}});
  }

  void Count(const VerdictPart& part) {
    if (part.not_applicable) return not_applicable.Increment();
    switch (part.outcome) {
      case Outcome::kCorrect:
        return correct.Increment();
      case Outcome::kWrong:
        return wrong.Increment();
      default:
        return (TimedOut(part) ? timeout : unscorable).Increment();
    }
  }

  prometheus::Counter& correct;
  prometheus::Counter& wrong;
  prometheus::Counter& unscorable;
  prometheus::Counter& timeout;
  prometheus::Counter& not_applicable;
  prometheus::Histogram& seconds;
};

bool InBounds(const Verdict& verdict, double reward) {
  return IsReward(verdict.raw_reward) && IsReward(reward) &&
         std::ranges::all_of(verdict.parts,
                             [](const VerdictPart& part) { return IsReward(part.raw_reward); });
}

// Of an episode, those of the branch that was begun last.
const std::vector<Segment>& SegmentsOf(const EngineResult& sample) {
  if (!sample.episode || sample.episode->branches.empty()) return sample.segments;
  return sample.episode->branches.back().segments;
}

class ThreadedScoringPool : public ScoringPool {
 public:
  ThreadedScoringPool(std::shared_ptr<const VerifierSet> verifiers, const Tokenizer& tokenizer,
                      const ScoringOptions& options, Metrics& metrics, const Clock& clock)
      : verifiers_(std::move(verifiers)),
        tokenizer_(tokenizer),
        options_(options),
        clock_(clock),
        slow_(options.threads, MonotonicSeconds()),
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

  void SetSteps(std::int64_t steps) override { steps_ = steps; }

  bool WantsGroups(std::string_view source) const override {
    return verifiers_->For(source).whole_groups() ||
           (options_.second && options_.second->whole_groups());
  }

  Status Submit(ScoreRequest& request) override {
    if (++inside_ > options_.capacity) {
      --inside_;
      return ResourceExhausted("scoring pool holds " + std::to_string(options_.capacity) +
                               " requests; poll results first");
    }
    const bool pushed = requests_.Push(request, std::chrono::milliseconds(0));
    BUTTRESS_CHECK(pushed, "the queue has room for all requests inside");
    return OkStatus();
  }

  std::vector<ScoredCompletion> Poll(std::chrono::milliseconds timeout) override {
    std::vector<ScoredCompletion> scored;
    for (auto some = results_.Pop(timeout); some;
         some = results_.Pop(std::chrono::milliseconds(0))) {
      std::ranges::move(*some, std::back_inserter(scored));
      --inside_;
    }
    return scored;
  }

  std::size_t inside() const override { return inside_; }

 private:
  void Work(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::optional<ScoreRequest> request = requests_.Pop(kIdleWait);
      if (!request) continue;
      std::vector<ScoredCompletion> scored = Score(*request);
      const bool pushed = results_.Push(scored, std::chrono::milliseconds(0));
      BUTTRESS_CHECK(pushed, "the queue has room for all requests inside");
    }
  }

  // Moves the samples.
  std::vector<ScoredCompletion> Score(ScoreRequest& request) {
    const std::size_t count = request.samples.size();
    std::vector<std::string> responses(count);
    std::vector<Status> decoded;
    std::vector<VerifyRequest> group;
    std::vector<VerifyRequest> asked;  // those that the verifier judges
    for (std::size_t i = 0; i < count; ++i) {
      decoded.push_back(Decode(request, i, responses[i]));
      group.push_back(MakeRequest(request, request.samples[i], responses[i]));
      if (IsJudged(request.samples[i])) asked.push_back(group.back());
    }
    const std::int64_t started_ms = clock_.MonotonicMs();
    const double started = MonotonicSeconds();
    const Verifier& verifier = verifiers_->For(request.source);
    std::vector<Verdict> judged;
    if (!asked.empty()) judged = verifier.VerifyGroup(asked);
    BUTTRESS_CHECK(judged.size() == asked.size(), "a verdict for each request");
    const double seconds = (MonotonicSeconds() - started) / static_cast<double>(count);
    const std::int64_t limit_ms = options_.timeout.count() * static_cast<std::int64_t>(count);
    const bool late = !verifier.bounds_time() && clock_.MonotonicMs() - started_ms > limit_ms;
    std::vector<Verdict> verdicts;
    auto next = judged.begin();
    for (std::size_t i = 0; i < count; ++i) {
      Verdict verdict;
      if (IsJudged(request.samples[i])) verdict = std::move(*next++);
      if (late && IsJudged(request.samples[i]))
        verdict = Unscorable(TimeoutReason(options_.timeout.count()));
      const auto& episode = request.samples[i].episode;
      if (episode && episode->reward) TakeReward(*episode->reward, verdict);
      if (!decoded[i].ok()) verdict = Unscorable(decoded[i].message());
      verdicts.push_back(std::move(verdict));
    }
    std::vector<Outcome> second(count, Outcome::kUnspecified);
    if (options_.second) second = options_.second->Check(request.samples, group, verdicts);
    std::vector<ScoredCompletion> scored;
    for (std::size_t i = 0; i < count; ++i) {
      EngineResult& sample = request.samples[i];
      Complete(request, sample.id, responses[i], seconds, verdicts[i]);
      scored.push_back({std::move(sample), std::move(verdicts[i]), second[i]});
    }
    if (const auto slow = slow_.Poll(MonotonicSeconds())) TellSlow(*slow);
    return scored;
  }

  bool IsJudged(const EngineResult& sample) const {
    if (!sample.episode) return true;
    const Episode& episode = *sample.episode;
    return episode.failure.empty() && !episode.branches.empty() &&
           (!episode.reward || options_.sums);
  }

  // Makes an episode's own reward the verdict, in a sum that of its first part; the other parts
  // stay, with their failures.
  void TakeReward(double reward, Verdict& verdict) const {
    Verdict own = reward >= options_.correct_from ? Correct(fmt::format("{}", reward), "")
                                                  : Wrong(fmt::format("{}", reward), "");
    own.raw_reward = reward;
    own.parts = std::move(verdict.parts);
    if (!own.parts.empty()) {
      VerdictPart& first = own.parts.front();
      first = {first.name, first.weight, own.outcome, reward, "", first.seconds};
    }
    for (const VerdictPart& part : own.parts) {
      if (part.outcome != Outcome::kUnscorable || part.not_applicable) continue;
      own.outcome = Outcome::kUnscorable;
      own.unscorable_reason = part.name + ": " + part.unscorable_reason;
    }
    verdict = std::move(own);
  }

  void TellSlow(const SlowReward& slow) const {
    Log(kWarn, "rewards are slow",
        {{"verifier", slow.verifier},
         {"share_of_scoring_time", fmt::format("{:.0f} %", 100 * slow.share)},
         {"seconds_a_completion", fmt::format("{:.3g}", slow.seconds)},
         {"scoring_threads", options_.threads},
         {"fix", "raise run.reward.threads and run.reward.python.workers"}});
  }

  VerifyRequest MakeRequest(const ScoreRequest& request, const EngineResult& sample,
                            std::string_view response) const {
    const std::vector<Segment>& segments = SegmentsOf(sample);
    return {.prompt = request.prompt,
            .response = response,
            .answer = request.answer,
            .extra_json = request.extra_json,
            .truncated = sample.finish_reason == FinishReason::kLength,
            .tokens = request.texts.empty() ? sample.sampled_tokens() : -1,
            .source = request.source,
            .token_ids = sample.token_ids,
            .step = segments.empty() ? -1 : static_cast<std::int64_t>(segments.back().version.step),
            .steps = steps_};
  }

  // kFailedPrecondition with the reason if the completion has no text to verify.
  Status Decode(ScoreRequest& request, std::size_t i, std::string& response) const {
    const EngineResult& sample = request.samples[i];
    if (sample.episode) {
      if (!sample.episode->failure.empty()) return FailedPrecondition(sample.episode->failure);
      if (sample.episode->branches.empty())
        return FailedPrecondition("the episode ended before the policy was asked");
      response = sample.episode->answer;
      return OkStatus();
    }
    if (sample.finish_reason != FinishReason::kStop &&
        sample.finish_reason != FinishReason::kLength)
      return FailedPrecondition("generation did not finish");
    if (!request.texts.empty()) {
      response = std::move(request.texts[i]);
      return OkStatus();
    }
    Result<std::string> decoded =
        ResponseText(tokenizer_, sample.token_ids, sample.finish_reason, request.sampling);
    if (!decoded.ok()) return decoded.status().Annotate("decode");
    response = *std::move(decoded);
    return OkStatus();
  }

  // Counts `verdict`, adds the noise, and brings it within the bounds of ScoredCompletion.
  void Complete(const ScoreRequest& request, const SampleId& id, std::string_view response,
                double seconds, Verdict& verdict) {
    const double reward = TotalReward(verdict);
    if (verdict.outcome != Outcome::kUnscorable && !InBounds(verdict, reward))
      verdict = Unscorable(fmt::format(
          "the verifier gave raw reward {} and reward {}; expected numbers in [-{}, {}]",
          verdict.raw_reward, reward, kMaxReward, kMaxReward));
    if (verdict.parts.empty()) {
      verdict.parts.push_back({std::string(verifiers_->NameFor(request.source)), 1, verdict.outcome,
                               verdict.raw_reward, verdict.unscorable_reason, seconds,
                               verdict.not_applicable});
    }
    for (const VerdictPart& part : verdict.parts) {
      VerifierMetrics& metrics = metrics_.at(part.name);
      metrics.Count(part);
      metrics.seconds.Observe(part.seconds);
      if (!TimedOut(part)) slow_.Add(part.name, part.seconds);
    }
    if (verdict.outcome == Outcome::kUnscorable) Tell(id, verdict.unscorable_reason);
    if (options_.noise) options_.noise->Apply(id, request.prompt, response, verdict);
    if (verdict.outcome == Outcome::kUnscorable) verdict.raw_reward = 0;
    verdict.unscorable_reason = FirstBytes(verdict.unscorable_reason, kMaxReasonBytes);
    verdict.given = FirstBytes(verdict.given, kMaxExtractedBytes);
  }

  // Logs the first completion of each kind without a verdict. A kind is the reason up to its first
  // digit, quote or colon.
  void Tell(const SampleId& id, std::string reason) {
    constexpr std::size_t kMostKinds = 50;
    std::ranges::replace(reason, '\n', ' ');
    {
      const MutexLock lock(mutex_);
      const std::string kind = reason.substr(0, reason.find_first_of("0123456789'\":"));
      if (told_.size() >= kMostKinds || !told_.insert(kind).second) return;
    }
    Log(kWarn, "no verdict, " + reason, {{"group", id.group_id}, {"index", id.index}});
  }

  const std::shared_ptr<const VerifierSet> verifiers_;
  const Tokenizer& tokenizer_;
  const ScoringOptions options_;
  std::atomic<std::int64_t> steps_ = -1;  // of the run; -1: unknown
  const Clock& clock_;
  std::map<std::string, VerifierMetrics> metrics_;
  SlowRewards slow_;
  BoundedQueue<ScoreRequest> requests_;
  BoundedQueue<std::vector<ScoredCompletion>> results_;  // of a request each
  std::atomic<std::size_t> inside_ = 0;
  Mutex mutex_;
  std::set<std::string> told_ GUARDED_BY(mutex_);  // kinds of reasons
  std::vector<std::jthread> threads_;
};

bool IsSum(const std::string& verifier) {
  const auto terms = ParseSum(verifier);
  return terms.ok() && terms->size() > 1;
}

}  // namespace

ScoringOptions ScoringOptionsOf(const RewardConfig& config) {
  ScoringOptions options;
  options.timeout = std::chrono::milliseconds(config.timeout_ms);
  options.correct_from = config.correct_from;
  options.sums =
      IsSum(config.verifier) ||
      std::ranges::any_of(config.by_source, [](const auto& entry) { return IsSum(entry.second); });
  return options;
}

std::unique_ptr<ScoringPool> ScoringPool::Start(std::shared_ptr<const VerifierSet> verifiers,
                                                const Tokenizer& tokenizer,
                                                const ScoringOptions& options, Metrics& metrics,
                                                const Clock& clock) {
  return std::make_unique<ThreadedScoringPool>(std::move(verifiers), tokenizer, options, metrics,
                                               clock);
}

}  // namespace buttress
