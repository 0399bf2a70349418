// Moves completions of the held groups through the engine and the scoring pool, on one thread.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/thread/sync.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/held_groups.h"
#include "rollout_worker/scoring/scoring_pool.h"
#include "rollout_worker/worker_metrics.h"

namespace buttress {

// Owns its thread. REQUIRES: the arguments outlive it. The held groups bound its queues.
class GenerationLoop {
 public:
  GenerationLoop(InferenceEngine& engine, ScoringPool& scoring, HeldGroups& groups,
                 WorkerMetrics& metrics)
      : engine_(engine), scoring_(scoring), groups_(groups), metrics_(metrics) {}

  ~GenerationLoop() { Stop(); }

  GenerationLoop(const GenerationLoop&) = delete;
  GenerationLoop& operator=(const GenerationLoop&) = delete;

  void Start();

  // Ends the thread within one poll. Idempotent.
  void Stop();

  // kUnavailable once kMaxFailures leases in a row were returned because the engine failed, which
  // means that the engine is broken and not the prompts; OutOfMemory once its memory did not
  // suffice, as it would not for the next completions either.
  Status engine_status() const EXCLUDES(mutex_);

  // Returns the seconds in which the loop had nothing else to do than what `reason` names: for
  // kEngine, in which the engine generated.
  double seconds(WaitReason reason) const {
    return seconds_[static_cast<std::size_t>(reason)].load();
  }

 private:
  static constexpr int kMaxFailures = 16;

  void Run();
  void SubmitWaiting();
  void TakeEnded(const SampleRequest& request);
  void Poll();
  // Where groups are held back, lets the engine sleep once all are sampled, and then releases them.
  void LetEngineSleep();
  void HandleResult(EngineResult result);
  void HandleFailure(const SampleId& id, const Status& status);
  void ReturnLease(const SampleId& id, const Status& status);
  void Return(const SampleId& id, ReturnReason reason);
  void SetBroken(Status status) EXCLUDES(mutex_);
  WaitReason CurrentWait(const EngineStats& stats) const;

  InferenceEngine& engine_;
  ScoringPool& scoring_;
  HeldGroups& groups_;
  WorkerMetrics& metrics_;
  std::deque<SampleRequest> requests_;  // not yet accepted by the engine
  std::deque<ScoreRequest> unscored_;   // not yet accepted by the scoring pool
  std::uint64_t seen_change_ = 0;
  std::vector<ServerState> servers_;  // as last written to metrics_
  int failures_in_a_row_ = 0;
  double idle_seconds_ = 0;                       // since the engine last generated
  double sampled_at_ = MonotonicSeconds();        // when a group was last not sampled
  std::array<std::atomic<double>, 5> seconds_{};  // by WaitReason
  mutable Mutex mutex_;
  Status engine_status_ GUARDED_BY(mutex_);  // the first that is not OK stays
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace buttress
