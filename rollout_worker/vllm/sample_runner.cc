#include "rollout_worker/vllm/sample_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace buttress {
namespace {

constexpr std::int64_t kStepMs = 200;
constexpr std::chrono::milliseconds kWaitSlice(200);
constexpr std::chrono::milliseconds kUnfinishedWait(2000);
constexpr std::int64_t kQueuedPerRunning = 4;
// The longest wait of a sample for a server that may take it, before it is given back so that
// another worker may sample it; first_byte_ms if that is shorter. Servers that the run starts come
// back: with them a sample continues behind its tokens, which are lost where it is given back.
constexpr std::int64_t kNoServerMs = 10000;

std::int64_t PatienceOf(const VllmConfig& config) {
  return config.launch.on() ? config.launch.ready_ms : std::min(kNoServerMs, config.first_byte_ms);
}

std::int64_t NowMs() { return RealClock().MonotonicMs(); }

// Whether the server may have ended, or hangs.
bool Disconnected(const Result<HttpReply>& reply, const Status& ended) {
  return ended.code() == StatusCode::kDeadlineExceeded ||
         (!reply.ok() && ended.code() == StatusCode::kUnavailable);
}

// Whether the tokens before the failure are what the server sampled: the protocol was kept.
bool TokensAreValid(const Status& ended) {
  return ended.ok() || ended.code() == StatusCode::kAborted ||
         ended.code() == StatusCode::kUnavailable || ended.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

SampleRunner::SampleRunner(const VllmConfig& config, std::string api_key, ServerPool& pool,
                           const Tokenizer* tokenizer, InFlight in_flight)
    : config_(config),
      api_key_(std::move(api_key)),
      pool_(pool),
      tokenizer_(tokenizer),
      in_flight_(in_flight),
      health_(config_, pool_, http_),
      pace_(pool.size(), config_.idle_ms, NowMs()) {
  thread_ = std::thread([this] { Run(); });
}

SampleRunner::~SampleRunner() { Stop(); }

void SampleRunner::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  http_.Wake();
  if (thread_.joinable()) thread_.join();
}

Status SampleRunner::Submit(SampleRequest request) {
  const std::int64_t max_model_len = pool_.max_model_len();
  const std::int64_t room =
      max_model_len - static_cast<std::int64_t>(request.prompt_token_ids.size());
  if (request.prompt_token_ids.empty() || request.sampling.max_tokens < 1) {
    return InvalidArgument(
        fmt::format("prompt of {} tokens and completion of {}; expected at least 1 each",
                    request.prompt_token_ids.size(), request.sampling.max_tokens));
  }
  if (room < 1) {
    return OutOfRange(
        fmt::format("the prompt has {} tokens; expected fewer than max_model_len = {} of the vLLM "
                    "server",
                    request.prompt_token_ids.size(), max_model_len));
  }
  if (!request.sampling.stop.empty() && tokenizer_ == nullptr)
    return InvalidArgument("stop strings need a tokenizer; expected stop_token_ids alone");
  const auto max_tokens =
      static_cast<std::int32_t>(std::min<std::int64_t>(request.sampling.max_tokens, room));
  if (request.begun.end() >= max_tokens) request.begun = {};
  const auto queue_limit = static_cast<std::size_t>(kQueuedPerRunning * pool_.concurrency());
  MutexLock lock(mutex_);
  if (inside_ >= queue_limit) {
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

std::vector<EngineResult> SampleRunner::Unfinished() {
  MutexLock lock(mutex_);
  unfinished_.reset();
  unfinished_wanted_ = true;
  http_.Wake();
  changed_.WaitFor(mutex_, kUnfinishedWait,
                   [this]() REQUIRES(mutex_) { return stop_ || unfinished_.has_value(); });
  unfinished_wanted_ = false;
  return std::exchange(unfinished_, std::nullopt).value_or(std::vector<EngineResult>());
}

void SampleRunner::Interrupt(std::size_t server) { Give(server, {OrderKind::kInterrupt}); }

void SampleRunner::Hold(std::size_t server) { Give(server, {OrderKind::kHold}); }

void SampleRunner::Continue(std::size_t server, const PolicyVersion& version) {
  Give(server, {OrderKind::kContinue, version});
}

void SampleRunner::Give(std::size_t server, Order order) {
  MutexLock lock(mutex_);
  orders_.insert_or_assign(server, std::move(order));
  http_.Wake();
  const auto done = [&]() REQUIRES(mutex_) { return stop_ || !orders_.contains(server); };
  while (!changed_.WaitFor(mutex_, kWaitSlice, done)) {
  }
}

void SampleRunner::Drain(std::size_t server) {
  MutexLock lock(mutex_);
  const auto done = [&]() REQUIRES(mutex_) { return stop_ || pool_.Idle(server); };
  while (!changed_.WaitFor(mutex_, kWaitSlice, done)) {
  }
}

void SampleRunner::Run() {
  while (AddSubmitted()) {
    CancelSamples();
    ReportUnfinished();
    MarkSlow();
    ObeyOrders();
    EndUnserved();
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
      StopAttempt(place);
      CountCut(place->KeepTokens());
    } else {
      place = std::find_if(waiting_.begin(), waiting_.end(), is_it);
    }
    if (place == waiting_.end()) continue;
    CountCut(place->tokens());
    End(place, place->Ended(FinishReason::kAbort, Cancelled("cancelled")));
  }
}

void SampleRunner::ReportUnfinished() {
  {
    MutexLock lock(mutex_);
    if (!unfinished_wanted_ || unfinished_) return;
  }
  std::vector<EngineResult> results;
  for (const std::list<OpenSample>* samples : {&running_, &waiting_}) {
    for (const OpenSample& sample : *samples) results.push_back(sample.Unfinished());
  }
  MutexLock lock(mutex_);
  unfinished_ = std::move(results);
  changed_.NotifyAll();
}

void SampleRunner::MarkSlow() {
  for (const PaceWatch::Fault& fault : pace_.Check(NowMs())) {
    pool_.MarkLost(fault.server, DeadlineExceeded(pool_.Info(fault.server).url + ": " + fault.why),
                   fault.rest_ms);
  }
}

void SampleRunner::ObeyOrders() {
  std::map<std::size_t, Order> orders;
  {
    MutexLock lock(mutex_);
    orders = orders_;
  }
  if (!orders.empty()) http_.Step(0);  // reads what the servers have sent until their pauses
  const std::vector<std::size_t> lost = pool_.TakeLost();
  for (auto sample = running_.begin(); sample != running_.end();) {
    const auto next = std::next(sample);
    const auto order = orders.find(sample->server);
    if (std::ranges::find(lost, sample->server) != lost.end()) {
      InterruptAttempt(sample, false);
    } else if (order != orders.end()) {
      Obey(order->second, sample);
    }
    sample = next;
  }
  MutexLock lock(mutex_);
  for (const auto& [server, order] : orders) orders_.erase(server);
  if (!orders.empty()) changed_.NotifyAll();
}

void SampleRunner::Obey(const Order& order, Place sample) {
  switch (order.kind) {
    case OrderKind::kInterrupt:
      return InterruptAttempt(sample, in_flight_ == InFlight::kAbort);
    case OrderKind::kHold:
      return sample->Hold();
    case OrderKind::kContinue:
      return sample->Continue(order.version);
  }
}

void SampleRunner::InterruptAttempt(Place sample, bool restart) {
  const FinishReason reason = sample->stream->finish_reason();
  // A completion that has finished only waits for the end of its reply.
  const bool finished = reason == FinishReason::kStop || reason == FinishReason::kLength;
  if (finished && !sample->held()) return;
  StopAttempt(sample);
  CountCut(restart ? sample->DropAll() : sample->KeepTokens());
  if (sample->full()) End(sample, sample->Finished(FinishReason::kLength));
}

void SampleRunner::CountCut(std::int64_t tokens) {
  MutexLock lock(mutex_);
  stats_.generated_tokens += tokens;
  stats_.cut_tokens += tokens;
}

void SampleRunner::StopAttempt(Place sample) {
  http_.Cancel(sample->transfer);
  pool_.Release(sample->server);
  MoveToWaiting(sample);
}

void SampleRunner::MoveToWaiting(Place sample) {
  pace_.End(sample->server, NowMs());
  sample->seen_may_run_ms = NowMs();
  waiting_.splice(waiting_.begin(), running_, sample);
}

void SampleRunner::EndUnserved() {
  const std::int64_t now = NowMs();
  if (now - looked_back_ms_ < kStepMs) return;
  looked_back_ms_ = now;
  const std::int64_t patience_ms = PatienceOf(config_);
  for (auto sample = waiting_.begin(); sample != waiting_.end();) {
    const auto next = std::next(sample);
    if (pool_.MaySample(sample->oldest())) {
      sample->seen_may_run_ms = now;
    } else if (now - sample->seen_may_run_ms >= patience_ms) {
      CountCut(sample->tokens());
      End(sample,
          sample->Ended(FinishReason::kAbort,
                        Unavailable("no vLLM server serves: " + pool_.last_failure().ToString())));
    }
    sample = next;
  }
}

void SampleRunner::BeginWaiting() {
  const std::int64_t now = NowMs();
  const PolicyVersion* no_room = nullptr;  // for samples of this version or newer ones
  for (auto sample = waiting_.begin(); sample != waiting_.end();) {
    const auto next = std::next(sample);
    const PolicyVersion& oldest = sample->oldest();
    const bool room = no_room == nullptr || OlderThan(oldest, *no_room);
    if (room && sample->not_before_ms <= now && !Begin(sample)) no_room = &oldest;
    sample = next;
  }
}

bool SampleRunner::Begin(Place sample) {
  const std::optional<Reservation> place =
      pool_.Acquire(sample->oldest(), sample->request.id.group_id);
  if (!place.has_value()) return false;
  HttpRequest request;
  request.url = place->url + "/v1/completions";
  request.bearer = api_key_;
  request.id = sample->AttemptId();
  request.deadlines = {config_.connect_ms, config_.first_byte_ms, config_.idle_ms};
  CompletionBody body = sample->Begin(place->model, place->version);
  body.seeded = place->shares_seed;
  if (place->takes_stream_interval) body.stream_interval = config_.stream_interval;
  request.json = body.ToJson();
  sample->server = place->server;
  running_.splice(running_.end(), waiting_, sample);
  pace_.Begin(place->server, NowMs());
  sample->transfer = http_.Start(
      std::move(request),
      [this, sample](std::string_view bytes) { return ReadBytes(*sample, bytes); },
      [this, sample](Result<HttpReply> reply) { EndAttempt(sample, std::move(reply)); });
  return true;
}

Status SampleRunner::ReadBytes(OpenSample& sample, std::string_view bytes) {
  const std::size_t before = sample.stream->token_ids().size();
  const Status status = sample.Read(bytes);
  const std::size_t tokens = sample.stream->token_ids().size() - before;
  if (tokens == 0) return status;
  pace_.CountTokens(sample.server, tokens, NowMs());
  pool_.CountTokens(sample.server, tokens);
  return status;
}

void SampleRunner::EndAttempt(Place sample, Result<HttpReply> reply) {
  const std::string url = pool_.Info(sample->server).url;
  const CompletionStream& stream = *sample->stream;
  Status ended = reply.ok() ? StatusOf(*reply, url) : reply.status();
  if (reply.ok() && ended.ok()) ended = stream.Finish().Annotate(url);
  if (stream.cut()) ended = OkStatus();
  pool_.Release(sample->server, ended, Disconnected(reply, ended));
  MoveToWaiting(sample);
  const bool stopped = stream.finish_reason() == FinishReason::kStop;
  const FinishReason reason = ended.ok() ? stream.finish_reason() : FinishReason::kLength;
  if (!TokensAreValid(ended)) {
    CountCut(static_cast<std::int64_t>(stream.token_ids().size()));
    sample->DropAttempt();
    return Retry(sample, ended);
  }
  const bool held = sample->held();
  CountCut(sample->KeepTokens());
  if (held) return;  // it continues behind the tokens of before
  // Where the connection broke behind the last token, only the server's count of tokens is missing.
  if (ended.ok() || stopped || sample->full())
    return End(sample, sample->Finished(stopped ? FinishReason::kStop : reason));
  // The server aborted the completion, as it does at a pause.
  if (ended.code() == StatusCode::kAborted && pool_.Updates(sample->server)) {
    if (in_flight_ == InFlight::kAbort) CountCut(sample->DropAll());
    return;
  }
  Retry(sample, ended);
}

void SampleRunner::Retry(Place sample, const Status& why) {
  const std::int64_t wait_ms = sample->CountFailure();
  if (WorthRetrying(why) && sample->failures() < config_.attempts) {
    sample->not_before_ms = NowMs() + wait_ms;
    return;
  }
  CountCut(sample->tokens());
  End(sample, sample->Ended(FinishReason::kError, why));
}

void SampleRunner::End(Place sample, EngineResult result) {
  Deliver(std::move(result));
  waiting_.erase(sample);
}

void SampleRunner::Deliver(EngineResult result) {
  MutexLock lock(mutex_);
  stats_.running = static_cast<std::int64_t>(running_.size());
  stats_.generated_tokens += static_cast<std::int64_t>(result.token_ids.size());
  results_.push_back(std::move(result));
  changed_.NotifyAll();
}

std::int64_t SampleRunner::WaitMs() const {
  std::int64_t wait_ms = std::min(kStepMs, health_.WaitMs());
  const std::int64_t now = NowMs();
  for (const OpenSample& sample : waiting_) {
    if (sample.not_before_ms > now) wait_ms = std::min(wait_ms, sample.not_before_ms - now);
  }
  return wait_ms;
}

}  // namespace buttress
