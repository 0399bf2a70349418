#include "rollout_worker/generation_loop.h"

#include <algorithm>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/report/log.h"
#include "lib/base/report/status.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kBusyPoll(20);
constexpr std::chrono::milliseconds kIdleWait(100);
constexpr std::chrono::milliseconds kNoWait(0);
// How long an engine without a group waits for one before it sleeps: a version comes with leases.
constexpr double kAwakeSeconds = 2;

}  // namespace

void GenerationLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void GenerationLoop::Stop() {
  stop_.Stop();
  groups_.Notify();
  if (thread_.joinable()) thread_.join();
}

Status GenerationLoop::engine_status() const {
  const MutexLock lock(mutex_);
  return engine_status_;
}

void GenerationLoop::SetBroken(Status status) {
  const MutexLock lock(mutex_);
  if (engine_status_.ok()) engine_status_ = std::move(status);
}

void GenerationLoop::Run() {
  while (!stop_.stopped()) {
    SubmitWaiting();
    Poll();
    LetEngineSleep();
  }
}

void GenerationLoop::SubmitWaiting() {
  if (requests_.empty()) {
    for (SampleRequest& request : groups_.StartRunnable(engine_.version()))
      requests_.push_back(std::move(request));
  }
  while (!requests_.empty()) {
    const SampleRequest& request = requests_.front();
    if (!groups_.IsWanted(request.id)) {
      groups_.CountHandedOn(request.id, false);
    } else if (request.begun.ended()) {
      TakeEnded(request);
    } else {
      const Status status = engine_.Submit(request);
      if (status.code() == StatusCode::kResourceExhausted) return;
      if (status.ok()) {
        metrics_.prompt_tokens.Increment(static_cast<double>(request.prompt_token_ids.size()));
      } else {
        ReturnLease(request.id, status);
      }
    }
    requests_.pop_front();
  }
}

// Scores a completion that came with its lease complete.
void GenerationLoop::TakeEnded(const SampleRequest& request) {
  EngineResult result;
  result.id = request.id;
  result.token_ids = request.begun.token_ids;
  result.logprobs = request.begun.logprobs;
  result.segments = request.begun.segments;
  result.finish_reason = request.begun.finish_reason;
  groups_.CountReceived(request.begun.end());
  if (auto score = groups_.AddSampled(std::move(result), scoring_))
    unscored_.push_back(*std::move(score));
}

void GenerationLoop::Poll() {
  const EngineStats stats = engine_.stats();
  metrics_.requests_in_flight.Set(static_cast<double>(stats.running + stats.waiting));
  if (stats.servers != servers_) metrics_.SetServers(servers_ = stats.servers);
  // An engine that started from the model folder has no digest until its first update.
  const bool proven = !engine_.version().digest.empty() &&
                      std::ranges::all_of(stats.servers, &ServerState::serving);
  metrics_.weights_proven.Set(proven ? 1 : 0);
  metrics_.SetProofs(stats);
  const bool generating = stats.running + stats.waiting > 0;
  const bool scoring = scoring_.inside() > 0;
  const WaitReason reason = CurrentWait(stats);
  const double started = MonotonicSeconds();

  std::vector<EngineResult> results = engine_.Poll(generating ? kBusyPoll : kNoWait);
  for (EngineResult& result : results) HandleResult(std::move(result));
  while (!unscored_.empty() && scoring_.Submit(unscored_.front()).ok()) unscored_.pop_front();
  std::vector<ScoredCompletion> scored =
      scoring_.Poll(!generating && scoring ? kBusyPoll : kNoWait);
  for (ScoredCompletion& completion : scored) groups_.AddScored(std::move(completion));
  if (!generating && !scoring && results.empty() && requests_.empty()) {
    seen_change_ = groups_.WaitForChange(seen_change_, kIdleWait);
  }
  const double spent = MonotonicSeconds() - started;
  seconds_[static_cast<std::size_t>(reason)] += spent;
  if (reason != WaitReason::kEngine) {
    idle_seconds_ += spent;
  } else if (const double idle = std::exchange(idle_seconds_, 0); idle > 0) {
    metrics_.idle_seconds.Observe(idle);
  }
  if (results.empty() && scored.empty()) metrics_.CountWait(reason, spent);
}

void GenerationLoop::LetEngineSleep() {
  if (!groups_.holds_back()) return;
  const GroupCounts counts = groups_.counts();
  const double now = MonotonicSeconds();
  if (counts.held > counts.unsent) sampled_at_ = now;
  const bool unused = now - sampled_at_ >= kAwakeSeconds;
  const bool sampled = counts.held > 0 && counts.held == counts.unsent;
  if ((sampled || unused) && engine_.Sleep()) groups_.Release();
}

WaitReason GenerationLoop::CurrentWait(const EngineStats& stats) const {
  if (stats.running + stats.waiting > 0) return WaitReason::kEngine;
  if (scoring_.inside() > 0) return WaitReason::kVerifier;
  const GroupCounts counts = groups_.counts();
  if (counts.waiting > 0) return WaitReason::kWeights;
  return counts.unsent > 0 ? WaitReason::kSubmit : WaitReason::kNoLease;
}

void GenerationLoop::HandleResult(EngineResult result) {
  metrics_.Count(result);
  const FinishReason reason = result.finish_reason;
  if (reason != FinishReason::kStop && reason != FinishReason::kLength) {
    groups_.CountCut(result.sampled_tokens());
    groups_.CountHandedOn(result.id, true);
  }
  if (reason == FinishReason::kAbort && result.status.code() == StatusCode::kUnavailable) {
    if (!groups_.IsWanted(result.id)) return;
    Log(kWarn, "no server samples; the worker returns the lease",
        {{"group", result.id.group_id}, {"error", result.status.ToString()}});
    return Return(result.id, ReturnReason::kWeightsUnavailable);
  }
  if (reason != FinishReason::kStop && reason != FinishReason::kLength) {
    HandleFailure(result.id, result.status);
    return;
  }
  failures_in_a_row_ = 0;
  if (auto request = groups_.AddSampled(std::move(result), scoring_))
    unscored_.push_back(*std::move(request));
}

void GenerationLoop::HandleFailure(const SampleId& id, const Status& status) {
  if (!groups_.IsWanted(id)) return;  // the worker cancelled it
  if (IsOutOfMemory(status)) SetBroken(status);
  // The fault of a prompt that is too long for the model.
  if (status.code() == StatusCode::kOutOfRange) return ReturnLease(id, status);
  if (auto again = groups_.Retry(id)) {
    Log(kWarn, "a completion failed; retrying",
        {{"group", id.group_id}, {"index", id.index}, {"error", status.ToString()}});
    requests_.push_back(*std::move(again));
    return;
  }
  ReturnLease(id, status);
}

void GenerationLoop::ReturnLease(const SampleId& id, const Status& status) {
  Log(kWarn, "the engine failed; the worker returns the lease",
      {{"group", id.group_id}, {"error", status.ToString()}});
  if (status.code() != StatusCode::kOutOfRange && ++failures_in_a_row_ == kMaxFailures)
    SetBroken(Unavailable("the engine failed on many groups in a row; see the warnings above"));
  Return(id, ReturnReason::kEngineFailed);
}

void GenerationLoop::Return(const SampleId& id, ReturnReason reason) {
  for (const SampleId& sample : groups_.Return(id.lease(), reason)) engine_.Cancel(sample);
}

}  // namespace buttress
