// Carries the held groups' completions through the engine and the scoring pool, on one thread.
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

// Owns its thread; the arguments outlive it. Everything in here is bounded by the groups that are
// held.
class GenerationLoop {
 public:
  GenerationLoop(InferenceEngine& engine, ScoringPool& scoring, HeldGroups& groups,
                 WorkerMetrics& metrics)
      : engine_(engine), scoring_(scoring), groups_(groups), metrics_(metrics) {}

  ~GenerationLoop() { Stop(); }

  GenerationLoop(const GenerationLoop&) = delete;
  GenerationLoop& operator=(const GenerationLoop&) = delete;

  void Start();

  // Ends the thread within one poll. Safe to repeat.
  void Stop();

  // True once kMaxFailures groups in a row were given back because the engine failed: it is broken,
  // not the prompts.
  bool engine_broken() const { return failures_in_a_row_ >= kMaxFailures; }

 private:
  static constexpr int kMaxFailures = 16;

  void Run();
  void SubmitWaiting();
  void Poll();
  void Take(EngineResult result);
  void FailSample(const SampleId& id, const Status& status);
  void GiveBack(const SampleId& id, const Status& status);
  WaitReason Reason() const;

  InferenceEngine& engine_;
  ScoringPool& scoring_;
  HeldGroups& groups_;
  WorkerMetrics& metrics_;
  std::deque<SampleRequest> requests_;  // for the engine, which was full
  std::deque<ScoreRequest> unscored_;   // for the scoring pool, which was full
  std::uint64_t seen_change_ = 0;
  std::vector<ServerState> servers_;  // as metrics_ has them
  std::atomic<int> failures_in_a_row_{0};
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace buttress
