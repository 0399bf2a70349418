#include "rollout_worker/generation_loop.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kBusyPoll(20);
constexpr std::chrono::milliseconds kIdleWait(100);
constexpr std::chrono::milliseconds kNoWait(0);

}  // namespace

void GenerationLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void GenerationLoop::Stop() {
  stop_.Stop();
  groups_.Touch();
  if (thread_.joinable()) thread_.join();
}

void GenerationLoop::Run() {
  while (!stop_.stopped()) {
    SubmitWaiting();
    Poll();
  }
}

void GenerationLoop::SubmitWaiting() {
  if (requests_.empty()) {
    for (SampleRequest& request : groups_.TakeRunnable(engine_.version()))
      requests_.push_back(std::move(request));
  }
  while (!requests_.empty()) {
    const SampleRequest& request = requests_.front();
    if (groups_.Wants(request.id)) {
      const Status status = engine_.Submit(request);
      if (status.code() == StatusCode::kResourceExhausted) return;
      if (status.ok()) {
        metrics_.prompt_tokens.Increment(static_cast<double>(request.prompt_token_ids.size()));
      } else {
        GiveBack(request.id, status);
      }
    }
    requests_.pop_front();
  }
}

void GenerationLoop::Poll() {
  const EngineStats stats = engine_.stats();
  metrics_.requests_in_flight.Set(static_cast<double>(stats.running + stats.waiting));
  if (stats.servers != servers_) metrics_.SetServers(servers_ = stats.servers);
  const bool generating = stats.running + stats.waiting > 0;
  const bool scoring = scoring_.inside() > 0;
  const WaitReason reason = Reason();
  const double started = MonotonicSeconds();

  std::vector<EngineResult> results = engine_.Poll(generating ? kBusyPoll : kNoWait);
  for (EngineResult& result : results) Take(std::move(result));
  while (!unscored_.empty() && scoring_.Submit(unscored_.front()).ok()) unscored_.pop_front();
  const std::vector<ScoredCompletion> scored =
      scoring_.Poll(!generating && scoring ? kBusyPoll : kNoWait);
  for (const ScoredCompletion& completion : scored) groups_.Score(completion);
  if (!generating && !scoring && results.empty() && requests_.empty()) {
    seen_change_ = groups_.WaitForChange(seen_change_, kIdleWait);
  }
  if (results.empty() && scored.empty()) metrics_.CountWait(reason, MonotonicSeconds() - started);
}

WaitReason GenerationLoop::Reason() const {
  const EngineStats stats = engine_.stats();
  if (stats.running + stats.waiting > 0) return WaitReason::kEngine;
  if (scoring_.inside() > 0) return WaitReason::kVerifier;
  const GroupCounts counts = groups_.counts();
  if (counts.waiting > 0) return WaitReason::kWeights;
  return counts.unsent > 0 ? WaitReason::kSubmit : WaitReason::kNoLease;
}

void GenerationLoop::Take(EngineResult result) {
  metrics_.Count(result.completion);
  const FinishReason reason = result.completion.finish_reason;
  if (reason != FinishReason::kStop && reason != FinishReason::kLength) {
    FailSample(result.id, result.status);
    return;
  }
  failures_in_a_row_ = 0;
  if (auto request = groups_.ToScore(result)) unscored_.push_back(std::move(*request));
}

void GenerationLoop::FailSample(const SampleId& id, const Status& status) {
  if (!groups_.Wants(id)) return;  // cancelled by us
  if (auto again = groups_.Retry(id)) {
    Log(kWarn, "a completion failed, trying again",
        {{"group", id.group_id}, {"index", id.index}, {"error", status.ToString()}});
    requests_.push_back(std::move(*again));
    return;
  }
  GiveBack(id, status);
}

void GenerationLoop::GiveBack(const SampleId& id, const Status& status) {
  Log(kWarn, "the engine failed; a lease is given back",
      {{"group", id.group_id}, {"error", status.ToString()}});
  ++failures_in_a_row_;
  for (const SampleId& sample : groups_.Return(KeyOf(id), v1::RETURN_REASON_ENGINE_FAILED))
    engine_.Cancel(sample);
}

}  // namespace buttress
