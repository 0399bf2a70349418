#include "rollout_worker/openai/engine_hub.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kIdleWait(5);

EngineResult EndedSample(SampleId id, FinishReason reason, const Status& status) {
  EngineResult result;
  result.id = id;
  result.finish_reason = reason;
  result.status = status;
  return result;
}

}  // namespace

EngineHub::EngineHub(InferenceEngine& engine, std::int64_t most)
    : engine_(engine), most_(most), thread_([this] { Run(); }) {}

EngineHub::~EngineHub() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  thread_.join();
}

Result<std::uint64_t> EngineHub::Submit(std::vector<SampleRequest> samples,
                                        std::shared_ptr<SampleWatcher> watcher) {
  MutexLock lock(mutex_);
  if (stopped_) return Unavailable("the engine ends");
  if (std::ssize(open_) + std::ssize(samples) > most_) {
    return ResourceExhausted(
        fmt::format("{} completions are open and {} more are asked for; at "
                    "most {} are open at once; try again later",
                    open_.size(), samples.size(), most_));
  }
  const std::uint64_t call = ++last_call_;
  std::vector<SampleId> begun;
  std::deque<SampleRequest> held;
  for (SampleRequest& sample : samples) {
    sample.id = {sample.id.group_id, call, static_cast<std::int32_t>(begun.size())};
    begun.push_back(sample.id);
    const bool waits = paused_ || !held_.empty() || !held.empty();
    const Status status = waits ? ResourceExhausted("") : engine_.Submit(sample);
    if (status.code() == StatusCode::kResourceExhausted) {
      held.push_back(std::move(sample));
    } else if (!status.ok()) {
      for (const SampleId& id : begun) engine_.Cancel(id);
      return status;
    }
  }
  std::ranges::move(held, std::back_inserter(held_));
  if (watcher->streams()) streams_ += std::ssize(begun);
  for (const SampleId& id : begun) open_.emplace(id, watcher);
  return call;
}

void EngineHub::Cancel(std::uint64_t call) {
  MutexLock lock(mutex_);
  std::erase_if(held_, [&](const SampleRequest& sample) REQUIRES(mutex_) {
    if (sample.id.lease_epoch != call) return false;
    ended_.push_back(EndedSample(sample.id, FinishReason::kAbort, Cancelled("cancelled")));
    return true;
  });
  for (const auto& [id, watcher] : open_) {
    if (id.lease_epoch == call) engine_.Cancel(id);
  }
}

void EngineHub::Pause(std::function<void()> paused) {
  MutexLock lock(mutex_);
  paused_ = true;
  pauses_.push_back(std::move(paused));
}

void EngineHub::Resume() {
  MutexLock lock(mutex_);
  paused_ = false;
  SubmitHeld();
}

void EngineHub::SubmitHeld() {
  while (!paused_ && !held_.empty()) {
    const Status status = engine_.Submit(held_.front());
    if (status.code() == StatusCode::kResourceExhausted) return;
    if (!status.ok()) ended_.push_back(EndedSample(held_.front().id, FinishReason::kError, status));
    held_.pop_front();
  }
}

std::int64_t EngineHub::open() const {
  MutexLock lock(mutex_);
  return std::ssize(open_);
}

void EngineHub::Run() {
  bool busy = false;
  while (true) {
    bool stopped = false, streams = false;
    std::vector<std::function<void()>> pauses;
    std::vector<EngineResult> ended;
    {
      MutexLock lock(mutex_);
      stopped = stopped_;
      streams = streams_ > 0;
      pauses.swap(pauses_);
      SubmitHeld();
      ended.swap(ended_);
    }
    for (EngineResult& result : ended) Finish(std::move(result));
    if (stopped) return Abort(Cancelled("the engine ends"));
    if (!pauses.empty()) Abort(OkStatus());
    for (const auto& paused : pauses) paused();
    for (EngineResult& result : engine_.Poll(busy ? std::chrono::milliseconds(0) : kIdleWait))
      Finish(std::move(result));
    if (!streams) {
      busy = false;
      continue;
    }
    // This waits for a step of the engine.
    std::vector<EngineResult> unfinished = engine_.Unfinished();
    busy = !unfinished.empty();
    Progress(std::move(unfinished));
  }
}

// Ends every sample: with its tokens, and those that wait for Resume apart, unless the hub ends.
void EngineHub::Abort(const Status& status) {
  for (EngineResult& result : engine_.Poll(std::chrono::milliseconds(0))) Finish(std::move(result));
  std::map<SampleId, EngineResult> results;
  if (status.ok()) {
    for (EngineResult& result : engine_.Unfinished()) {
      const SampleId id = result.id;
      results.emplace(id, std::move(result));
    }
  }
  std::vector<SampleId> ended;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, watcher] : open_) ended.push_back(id);
    if (status.ok()) {
      for (const SampleRequest& sample : held_) std::erase(ended, sample.id);
    }
  }
  for (const SampleId& id : ended) {
    engine_.Cancel(id);
    EngineResult& result =
        results.try_emplace(id, EndedSample(id, FinishReason::kAbort, status)).first->second;
    result.finish_reason = FinishReason::kAbort;
    result.status = status;
    Finish(std::move(result));
  }
}

void EngineHub::Progress(std::vector<EngineResult> results) {
  for (const EngineResult& result : results) {
    std::shared_ptr<SampleWatcher> watcher;
    {
      MutexLock lock(mutex_);
      if (const auto it = open_.find(result.id); it != open_.end()) watcher = it->second;
    }
    if (watcher && watcher->streams()) watcher->OnProgress(result);
  }
}

// Results of samples that have ended already are dropped.
void EngineHub::Finish(EngineResult result) {
  std::shared_ptr<SampleWatcher> watcher;
  {
    MutexLock lock(mutex_);
    const auto it = open_.find(result.id);
    if (it == open_.end()) return;
    watcher = std::move(it->second);
    open_.erase(it);
    if (watcher->streams()) --streams_;
  }
  watcher->OnDone(std::move(result));
}

}  // namespace buttress
