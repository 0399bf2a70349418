// Moves completions of the held groups through the engine and the scoring pool, on one thread.
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/sync.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/held_groups.h"
#include "rollout_worker/scoring_pool.h"
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

  // Returns true once kMaxFailures leases in a row were returned because the engine failed, which
  // means that the engine is broken and not the prompts.
  bool engine_broken() const { return failures_in_a_row_ >= kMaxFailures; }

 private:
  static constexpr int kMaxFailures = 16;

  void Run();
  void SubmitWaiting();
  void Poll();
  void HandleResult(EngineResult result);
  void HandleFailure(const SampleId& id, const Status& status);
  void ReturnLease(const SampleId& id, const Status& status);
  WaitReason CurrentWait(const EngineStats& stats) const;

  InferenceEngine& engine_;
  ScoringPool& scoring_;
  HeldGroups& groups_;
  WorkerMetrics& metrics_;
  std::deque<SampleRequest> requests_;  // not yet accepted by the engine
  std::deque<ScoreRequest> unscored_;   // not yet accepted by the scoring pool
  std::uint64_t seen_change_ = 0;
  std::vector<ServerState> servers_;  // as last written to metrics_
  std::atomic<int> failures_in_a_row_{0};
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace buttress
