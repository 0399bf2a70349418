#include "rollout_worker/vllm/sample_runner.h"

#include <fmt/core.h>

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
                           PolicyVersion version, const Tokenizer* tokenizer)
    : config_(config),
      api_key_(std::move(api_key)),
      pool_(pool),
      queue_limit_(QueueLimit(pool)),
      tokenizer_(tokenizer),
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
    return InvalidArgument(fmt::format(
        "prompt of {} tokens and completion of {}; expected at least 1 each within max_model_len = "
        "{} of the vLLM server",
        request.prompt_token_ids.size(), request.sampling.max_tokens, max_model_len_));
  }
  if (!request.sampling.stop.empty() && tokenizer_ == nullptr)
    return InvalidArgument("stop strings need a tokenizer; expected stop_token_ids alone");
  const auto max_tokens =
      static_cast<std::int32_t>(std::min<std::int64_t>(request.sampling.max_tokens, room));
  MutexLock lock(mutex_);
  if (inside_ >= queue_limit_) {
    return ResourceExhausted(
        fmt::format("the engine has {} samples; submit again after some have ended", inside_));
  }
  ++inside_;
  submitted_.emplace_back(std::move(request), max_tokens, tokenizer_);
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
  changed_.WaitFor(mutex_, timeout, [this]() REQUIRES(mutex_) { return !results_.empty(); });
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

void SampleRunner::Pause() { GiveOrder(Order::kPause); }

void SampleRunner::Drain() { GiveOrder(Order::kDrain); }

void SampleRunner::Interrupt(InFlight in_flight) {
  GiveOrder(in_flight == InFlight::kAbort ? Order::kInterruptAndAbort : Order::kInterruptAndKeep);
}

void SampleRunner::GiveOrder(Order order) {
  MutexLock lock(mutex_);
  order_ = order;
  http_.Wake();
  const auto done = [this]() REQUIRES(mutex_) { return order_ == Order::kNone; };
  while (!changed_.WaitFor(mutex_, kWaitSlice, done)) {
  }
}

void SampleRunner::Resume(PolicyVersion version) {
  MutexLock lock(mutex_);
  version_ = std::move(version);
  paused_ = false;
  http_.Wake();
}

void SampleRunner::Run() {
  while (AddSubmitted()) {
    CancelSamples();
    ExecuteOrder();
    AbandonUnhealthy();
    BeginWaiting();
    health_.Begin();
    http_.Step(WaitMs());
  }
}

bool SampleRunner::AddSubmitted() {
  MutexLock lock(mutex_);
  while (!submitted_.empty()) {
    waiting_.push_back(std::move(submitted_.front()));
    submitted_.pop_front();
  }
  stats_.running = static_cast<std::int64_t>(running_.size());
  return !stop_;
}

void SampleRunner::CancelSamples() {
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

void SampleRunner::ExecuteOrder() {
  Order order;
  {
    MutexLock lock(mutex_);
    order = order_;
    if (order == Order::kNone) return;
    paused_ = true;
  }
  if (order == Order::kDrain && !running_.empty()) return;
  if (order == Order::kInterruptAndKeep) InterruptAll(/*abort=*/false);
  if (order == Order::kInterruptAndAbort) InterruptAll(/*abort=*/true);
  MutexLock lock(mutex_);
  order_ = Order::kNone;
  changed_.NotifyAll();
}

void SampleRunner::InterruptAll(bool abort) {
  for (auto sample = running_.begin(); sample != running_.end();) {
    const auto next = std::next(sample);
    const FinishReason reason = sample->stream->finish_reason();
    // A completion that has finished only waits for the end of its reply.
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
      Deliver(sample->Ended(FinishReason::kAbort, Cancelled("aborted by a weight update")));
      waiting_.erase(sample);
    }
    sample = next;
  }
}

void SampleRunner::AbandonUnhealthy() {
  for (const HealthFailure& failure : health_.PopFailures()) {
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
    if (paused_) return;
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
  if (sample->stream->cut()) ended = OkStatus();
  pool_.Release(sample->server, ended);
  // A server that disconnects may restart with other weights.
  if (!reply.ok() &&
      (ended.code() == StatusCode::kUnavailable || ended.code() == StatusCode::kDeadlineExceeded)) {
    pool_.MarkLost(sample->server, ended);
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
  // The server aborted the completion, as it does at a pause. The next attempt continues behind its
  // tokens, and counts as a failure only if no weight update is in progress.
  bool paused;
  {
    MutexLock lock(mutex_);
    paused = paused_;
  }
  if (paused) return;
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
