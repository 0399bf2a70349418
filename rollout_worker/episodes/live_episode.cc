#include "rollout_worker/episodes/live_episode.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/text/unicode.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

std::int64_t NowMs() { return RealClock().MonotonicMs(); }

bool HasAnswer(const EngineResult& result) {
  return result.finish_reason == FinishReason::kStop ||
         result.finish_reason == FinishReason::kLength;
}

// Passes the end of one sample on.
class AnswerWatcher final : public SampleWatcher {
 public:
  explicit AnswerWatcher(std::function<void(EngineResult)> done) : done_(std::move(done)) {}

  void OnDone(EngineResult result) override { done_(std::move(result)); }

 private:
  const std::function<void(EngineResult)> done_;
};

}  // namespace

LiveEpisode::LiveEpisode(SampleRequest request, const SessionParts& parts, EngineHub& hub,
                         std::atomic<std::int64_t>& lost)
    : request_(std::move(request)),
      env_(parts.env),
      hub_(hub),
      lost_(lost),
      deadline_ms_(NowMs() + parts.env.timeout_ms),
      session_(parts, request_, NowMs()) {}

std::int32_t LiveEpisode::Ask(const PolicyAsk& ask, Done done) {
  Result<PolicyCall> call = [&]() -> Result<PolicyCall> {
    MutexLock lock(mutex_);
    if (OverLocked()) return FailedPrecondition("the episode has ended");
    if (open_.size() >= kMostCalls)
      return ResourceExhausted(
          fmt::format("{} calls of this episode are open; wait for an answer", open_.size()));
    Result<PolicyCall> begun = session_.Begin(ask, NowMs());
    if (begun.ok()) open_[begun->index] = {};
    changed_.NotifyAll();
    return begun;
  }();
  if (!call.ok()) {
    done(call.status());
    return -1;
  }
  SampleRequest request;
  request.id = request_.id;
  request.prompt_token_ids = call->prompt_token_ids;
  request.sampling = call->sampling;
  request.min_version = call->min_version;
  const std::int32_t index = call->index;
  const auto watcher =
      std::make_shared<AnswerWatcher>([self = shared_from_this(), call = *std::move(call),
                                       done = std::move(done)](EngineResult result) mutable {
        self->Sampled(std::move(call), std::move(result), done);
      });
  const Result<std::uint64_t> submitted = hub_.Submit({std::move(request)}, watcher);
  if (!submitted.ok()) {
    EngineResult refused;
    refused.finish_reason = FinishReason::kError;
    refused.status = submitted.status();
    watcher->OnDone(std::move(refused));
    return -1;
  }
  MutexLock lock(mutex_);
  if (const auto open = open_.find(index); open != open_.end()) open->second = *submitted;
  if (OverLocked()) hub_.Cancel(*submitted);
  return index;
}

void LiveEpisode::Sampled(PolicyCall call, EngineResult result, const Done& done) {
  Result<PolicyAnswer> answer = [&]() -> Result<PolicyAnswer> {
    MutexLock lock(mutex_);
    open_.erase(call.index);
    changed_.NotifyAll();
    return FinishLocked(std::move(call), std::move(result));
  }();
  done(std::move(answer));
}

Result<PolicyAnswer> LiveEpisode::FinishLocked(PolicyCall call, EngineResult result) {
  const auto tokens = static_cast<std::int64_t>(result.token_ids.size());
  if (HasAnswer(result) && !OverLocked()) {
    Result<PolicyAnswer> answer = session_.Finish(std::move(call), std::move(result), NowMs());
    if (!answer.ok()) lost_ += tokens;
    return answer;
  }
  session_.Abandon();
  lost_ += tokens;
  if (HasAnswer(result) || result.status.code() == StatusCode::kCancelled)
    return FailedPrecondition("the episode has ended");
  const StatusCode code = result.status.code();
  if (code == StatusCode::kOutOfRange || code == StatusCode::kInvalidArgument) {
    // The prompt, which an agent may have made, can never be sampled. A conversation that has
    // outgrown the model ends as one that has outgrown run.env.max_tokens.
    const bool first = session_.answers() == 0;
    session_.End(first ? EpisodeEnd::kFailed : EpisodeEnd::kTokens,
                 "the engine refuses the conversation: " + result.status.message());
    return FailedPrecondition("the episode has ended: " + result.status.message());
  }
  const std::string failure = result.status.message();
  result.id = request_.id;
  result.token_ids.clear();
  result.logprobs.clear();
  result.segments.clear();
  if (!engine_failure_) engine_failure_ = std::move(result);
  return Unavailable("the engine failed: " + failure);
}

void LiveEpisode::Leave(std::int32_t call) {
  std::uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    const auto open = open_.find(call);
    if (open == open_.end()) return;
    id = open->second;
  }
  hub_.Cancel(id);
}

Result<PolicyAnswer> LiveEpisode::AskAndWait(const PolicyAsk& ask) {
  // Shared, because the answer may come after the wait.
  const auto given = std::make_shared<std::optional<Result<PolicyAnswer>>>();
  const std::int32_t call = Ask(ask, [self = shared_from_this(), given](Result<PolicyAnswer> got) {
    MutexLock lock(self->mutex_);
    *given = std::move(got);
    self->changed_.NotifyAll();
  });
  bool there = false;
  while (!there && LeftMs() > 0) {
    MutexLock lock(mutex_);
    there = changed_.WaitFor(
        mutex_, std::chrono::milliseconds(std::max<std::int64_t>(1, deadline_ms_ - NowMs())),
        [&]() REQUIRES(mutex_) { return given->has_value() || OverLocked(); });
  }
  MutexLock lock(mutex_);
  if (given->has_value()) return **std::move(given);
  const auto open = open_.find(call);
  if (open != open_.end()) hub_.Cancel(open->second);
  return FailedPrecondition("the episode has ended");
}

void LiveEpisode::Grade(std::int32_t turn, double reward, std::vector<std::string> tools,
                        std::int32_t failed_tools) {
  MutexLock lock(mutex_);
  session_.Grade(turn, reward, std::move(tools), failed_tools);
}

Status LiveEpisode::Reward(std::optional<double> reward, std::optional<double> turn_reward) {
  MutexLock lock(mutex_);
  if (OverLocked()) return FailedPrecondition("the episode has ended");
  BUTTRESS_RETURN_IF_ERROR(session_.AddReward(turn_reward.value_or(0)));
  if (reward) reward_ = reward;
  return OkStatus();
}

void LiveEpisode::NoteRefusal(const Status& why) {
  MutexLock lock(mutex_);
  refusal_ = FirstBytes(ReplaceInvalidUtf8(why.message()), kMaxReasonBytes / 2);
}

void LiveEpisode::EndWithoutAnswer() {
  MutexLock lock(mutex_);
  if (session_.answers() > 0) return;
  std::string failure = "the agent ended without an answer of the policy";
  if (!refusal_.empty()) failure += "; its last request was refused: " + refusal_;
  session_.End(EpisodeEnd::kFailed, std::move(failure));
}

void LiveEpisode::End(EpisodeEnd end, std::string failure) {
  MutexLock lock(mutex_);
  session_.End(end, std::move(failure));
  changed_.NotifyAll();
}

void LiveEpisode::Cancel() {
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    changed_.NotifyAll();
  }
  CancelCalls();
}

void LiveEpisode::CancelCalls() {
  std::map<std::int32_t, std::uint64_t> open;
  {
    MutexLock lock(mutex_);
    open = open_;
  }
  for (const auto& [index, id] : open) hub_.Cancel(id);
}

bool LiveEpisode::ended() const {
  MutexLock lock(mutex_);
  return OverLocked() || session_.end() != EpisodeEnd::kUnspecified;
}

bool LiveEpisode::over() const {
  MutexLock lock(mutex_);
  return OverLocked();
}

bool LiveEpisode::OverLocked() const {
  switch (session_.end()) {
    case EpisodeEnd::kDone:
    case EpisodeEnd::kTime:
    case EpisodeEnd::kFailed:
      return true;
    default:
      return cancelled_ || taken_ || engine_failure_.has_value();
  }
}

std::int32_t LiveEpisode::answers() const {
  MutexLock lock(mutex_);
  return session_.answers();
}

std::int64_t LiveEpisode::LeftMs() {
  const std::int64_t left = deadline_ms_ - NowMs();
  if (left > 0) return left;
  End(EpisodeEnd::kTime,
      fmt::format("the episode took longer than run.env.timeout_ms = {}", env_.timeout_ms));
  return 0;
}

EngineResult LiveEpisode::Take() {
  CancelCalls();
  MutexLock lock(mutex_);
  taken_ = true;
  if (cancelled_ || engine_failure_) {
    lost_ += session_.sampled_tokens();
    if (engine_failure_ && !cancelled_) return *engine_failure_;
    EngineResult result;
    result.id = request_.id;
    result.finish_reason = FinishReason::kAbort;
    result.status = Cancelled("cancelled");
    return result;
  }
  if (session_.answers() == 0)
    session_.End(EpisodeEnd::kFailed, "the episode ended without a call of the policy");
  session_.End(EpisodeEnd::kDone, "");
  auto episode = std::make_shared<Episode>(session_.Take());
  episode->reward = reward_;
  EngineResult result;
  result.id = request_.id;
  result.finish_reason = session_.finish_reason();
  result.episode = std::move(episode);
  return result;
}

}  // namespace buttress
