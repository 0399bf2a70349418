#include "rollout_worker/vllm/sample_runner.h"

#include <algorithm>
#include <utility>

namespace buttress {
namespace {

constexpr std::int64_t kStepMs = 200;
constexpr std::chrono::milliseconds kWaitSlice(200);
constexpr std::size_t kQueuedPerRunning = 4;

std::size_t QueueLimit(const ServerPool& pool) {
  std::size_t running = 0;
  for (std::size_t i = 0; i < pool.size(); ++i)
    running += static_cast<std::size_t>(pool.Info(i).concurrency);
  return kQueuedPerRunning * running;
}

}  // namespace

SampleRunner::SampleRunner(const VllmConfig& config, std::string api_key, ServerPool& pool,
                           PolicyVersion version)
    : config_(config),
      api_key_(std::move(api_key)),
      pool_(pool),
      queue_limit_(QueueLimit(pool)),
      health_(config_, pool_, http_),
      version_(std::move(version)) {
  max_model_len_ = pool.Info(0).max_model_len;
  for (std::size_t i = 1; i < pool.size(); ++i)
    max_model_len_ = std::min(max_model_len_, pool.Info(i).max_model_len);
  thread_ = std::thread([this] { Run(); });
}

SampleRunner::~SampleRunner() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  http_.Wake();
  thread_.join();
}

Status SampleRunner::Submit(SampleRequest request) {
  const std::int64_t room =
      max_model_len_ - static_cast<std::int64_t>(request.prompt_token_ids.size());
  if (request.prompt_token_ids.empty() || room < 1 || request.sampling.max_tokens < 1) {
    return InvalidArgument(
        "a prompt of " + std::to_string(request.prompt_token_ids.size()) +
        " tokens and a completion of " + std::to_string(request.sampling.max_tokens) +
        "; expected 1 or more of each within max_model_len = " + std::to_string(max_model_len_) +
        " of the vLLM server");
  }
  const auto max_tokens =
      static_cast<std::int32_t>(std::min<std::int64_t>(request.sampling.max_tokens, room));
  MutexLock lock(mutex_);
  if (inside_ >= queue_limit_) {
    return ResourceExhausted("the engine holds " + std::to_string(inside_) +
                             " samples; submit again when some have ended");
  }
  ++inside_;
  submitted_.emplace_back(std::move(request), max_tokens);
  http_.Wake();
  return OkStatus();
}

void SampleRunner::Cancel(SampleId id) {
  MutexLock lock(mutex_);
  cancelled_.push_back(id);
  http_.Wake();
}

std::vector<EngineResult> SampleRunner::Poll(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout, [this] { return !results_.empty(); });
  inside_ -= results_.size();
  return std::exchange(results_, {});
}

EngineStats SampleRunner::stats() const {
  MutexLock lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting = std::max<std::int64_t>(
      0, static_cast<std::int64_t>(inside_ - results_.size()) - stats.running);
  return stats;
}

PolicyVersion SampleRunner::version() const {
  MutexLock lock(mutex_);
  return version_;
}

void SampleRunner::Hold() { Give(Order::kHold); }

void SampleRunner::Drain() { Give(Order::kDrain); }

void SampleRunner::Cut(InFlight in_flight) {
  Give(in_flight == InFlight::kAbort ? Order::kCutAbort : Order::kCutKeep);
}

void SampleRunner::Give(Order order) {
  MutexLock lock(mutex_);
  order_ = order;
  http_.Wake();
  while (!changed_.WaitFor(mutex_, kWaitSlice, [this] { return order_ == Order::kNone; })) {
  }
}

void SampleRunner::Go(PolicyVersion version) {
  MutexLock lock(mutex_);
  version_ = std::move(version);
  held_ = false;
  http_.Wake();
}

void SampleRunner::Run() {
  while (TakeSubmitted()) {
    TakeCancelled();
    TakeOrder();
    LeaveUnhealthy();
    BeginWaiting();
    health_.Begin();
    http_.Step(WaitMs());
  }
}

// False when the thread is to stop.
bool SampleRunner::TakeSubmitted() {
  MutexLock lock(mutex_);
  while (!submitted_.empty()) {
    waiting_.push_back(std::move(submitted_.front()));
    submitted_.pop_front();
  }
  stats_.running = static_cast<std::int64_t>(running_.size());
  return !stop_;
}

void SampleRunner::TakeCancelled() {
  std::vector<SampleId> cancelled;
  {
    MutexLock lock(mutex_);
    cancelled.swap(cancelled_);
  }
  for (const SampleId& id : cancelled) {
    const auto is_it = [&](const OpenSample& sample) { return sample.request.id == id; };
    auto place = std::find_if(running_.begin(), running_.end(), is_it);
    if (place != running_.end()) {
      http_.Cancel(place->transfer);
      pool_.Release(place->server);
      waiting_.splice(waiting_.end(), running_, place);
    } else {
      place = std::find_if(waiting_.begin(), waiting_.end(), is_it);
    }
    if (place == waiting_.end()) continue;
    Deliver(place->Ended(FinishReason::kAbort, Cancelled("cancelled")));
    waiting_.erase(place);
  }
}

void SampleRunner::TakeOrder() {
  Order order;
  {
    MutexLock lock(mutex_);
    order = order_;
    if (order == Order::kNone) return;
    held_ = true;
  }
  if (order == Order::kDrain && !running_.empty()) return;
  if (order == Order::kCutKeep || order == Order::kCutAbort) CutAll(order == Order::kCutAbort);
  MutexLock lock(mutex_);
  order_ = Order::kNone;
  changed_.NotifyAll();
}

void SampleRunner::CutAll(bool abort) {
  for (auto sample = running_.begin(); sample != running_.end();) {
    const auto next = std::next(sample);
    const FinishReason reason = sample->stream->finish_reason();
    // What has stopped only waits for the end of its reply.
    if (reason != FinishReason::kStop && reason != FinishReason::kLength) {
      http_.Cancel(sample->transfer);
      pool_.Release(sample->server);
      sample->KeepTokens();
      sample->waiting_since_ms = RealClock().MonotonicMs();
      waiting_.splice(waiting_.begin(), running_, sample);
    }
    sample = next;
  }
  for (auto sample = waiting_.begin(); sample != waiting_.end();) {
    const auto next = std::next(sample);
    if (sample->full()) {
      Deliver(sample->Finished(FinishReason::kLength));
      waiting_.erase(sample);
    } else if (abort && sample->attempted()) {
      Deliver(sample->Ended(FinishReason::kAbort, Cancelled("aborted by new weights")));
      waiting_.erase(sample);
    }
    sample = next;
  }
}

void SampleRunner::LeaveUnhealthy() {
  for (const HealthFailure& failure : health_.TakeFailed()) {
    for (auto sample = running_.begin(); sample != running_.end();) {
      const auto next = std::next(sample);
      if (sample->server == failure.server) {
        http_.Cancel(sample->transfer);
        EndAttempt(sample, failure.why);
      }
      sample = next;
    }
  }
}

void SampleRunner::BeginWaiting() {
  {
    MutexLock lock(mutex_);
    if (held_) return;
  }
  const std::int64_t now = RealClock().MonotonicMs();
  const bool none_serves = pool_.Serving().empty();
  for (auto sample = waiting_.begin(); sample != waiting_.end();) {
    const auto next = std::next(sample);
    if (none_serves) {
      if (now - sample->waiting_since_ms >= config_.first_byte_ms) {
        Deliver(sample->Ended(FinishReason::kError, Unavailable("no vLLM server serves: " +
                                                                pool_.last_failure().ToString())));
        waiting_.erase(sample);
      }
    } else if (sample->not_before_ms <= now && !Begin(sample)) {
      return;
    }
    sample = next;
  }
}

// False if no server has room.
bool SampleRunner::Begin(Place sample) {
  const std::optional<std::size_t> server = pool_.Acquire();
  if (!server.has_value()) return false;
  const ServerInfo info = pool_.Info(*server);
  HttpRequest request;
  request.url = info.url + "/v1/completions";
  request.bearer = api_key_;
  request.id = sample->AttemptId();
  request.deadlines = {config_.connect_ms, config_.first_byte_ms, config_.idle_ms};
  request.json = sample->Begin(info.model, version()).ToJson();
  sample->server = *server;
  running_.splice(running_.end(), waiting_, sample);
  CompletionStream* stream = sample->stream.get();
  sample->transfer = http_.Start(
      std::move(request), [stream](std::string_view bytes) { return stream->Read(bytes); },
      [this, sample](Result<HttpReply> reply) { EndAttempt(sample, std::move(reply)); });
  return true;
}

void SampleRunner::EndAttempt(Place sample, Result<HttpReply> reply) {
  const std::string url = pool_.Info(sample->server).url;
  Status ended = reply.ok() ? StatusOf(*reply, url) : reply.status();
  if (reply.ok() && ended.ok()) ended = sample->stream->Finish().Annotate(url);
  pool_.Release(sample->server, ended);
  // A server that went away may come back with other weights.
  if (!reply.ok() &&
      (ended.code() == StatusCode::kUnavailable || ended.code() == StatusCode::kDeadlineExceeded)) {
    pool_.Lose(sample->server, ended);
  }
  waiting_.splice(waiting_.end(), running_, sample);
  sample->waiting_since_ms = RealClock().MonotonicMs();
  if (!ended.ok() && ended.code() != StatusCode::kAborted) return Retry(sample, ended);

  const FinishReason reason = sample->stream->finish_reason();
  sample->KeepTokens();
  if (ended.ok() || sample->full()) {
    Deliver(sample->Finished(ended.ok() ? reason : FinishReason::kLength));
    waiting_.erase(sample);
    return;
  }
  // Cut by the server at a pause: it goes on behind its tokens, which costs none of its attempts
  // while weights change.
  bool held;
  {
    MutexLock lock(mutex_);
    held = held_;
  }
  if (held) return;
  sample->CountFailure();
  if (sample->failures() >= config_.attempts) {
    Deliver(sample->Ended(FinishReason::kError, ended));
    waiting_.erase(sample);
  }
}

void SampleRunner::Retry(Place sample, const Status& why) {
  const std::int64_t wait_ms = sample->StartOver();
  if (WorthRetrying(why) && sample->failures() < config_.attempts) {
    sample->not_before_ms = RealClock().MonotonicMs() + wait_ms;
    return;
  }
  Deliver(sample->Ended(FinishReason::kError, why));
  waiting_.erase(sample);
}

void SampleRunner::Deliver(EngineResult result) {
  MutexLock lock(mutex_);
  stats_.running = static_cast<std::int64_t>(running_.size());
  stats_.generated_tokens += static_cast<std::int64_t>(result.completion.token_ids.size());
  results_.push_back(std::move(result));
  changed_.NotifyAll();
}

std::int64_t SampleRunner::WaitMs() const {
  std::int64_t wait_ms = std::min(kStepMs, health_.WaitMs());
  const std::int64_t now = RealClock().MonotonicMs();
  for (const OpenSample& sample : waiting_) {
    if (sample.not_before_ms > now) wait_ms = std::min(wait_ms, sample.not_before_ms - now);
  }
  return wait_ms;
}

}  // namespace buttress
