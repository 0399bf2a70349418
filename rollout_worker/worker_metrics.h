// What a rollout worker measures; every family is made here and set by the part named beside it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "lib/base/metrics.h"
#include "lib/experience/types.h"
#include "lib/weights/fetcher.h"
#include "rollout_worker/engine.h"

namespace buttress {

enum class WorkerState { kStarting, kRunning, kDraining, kStopped };

// What the generation loop waits for when it has nothing to hand on.
enum class WaitReason { kNoLease, kEngine, kVerifier, kSubmit, kWeights };

// Where a weight update failed: bytes could not be had, bytes were wrong, the engine refused them.
enum class WeightStage { kFetch, kChecksum, kApply };

// References into `metrics`, which outlives this. Thread-safe.
struct WorkerMetrics {
  explicit WorkerMetrics(Metrics& metrics);

  // Exactly one state is 1.
  void SetState(WorkerState state);

  // A completion that the engine gave (generation loop).
  void Count(const Completion& completion);

  void CountWait(WaitReason reason, double seconds);
  void CountWeightFailure(WeightStage stage);

  // A transfer of weights by gRPC.
  void Count(const WeightTransfer& transfer);

  // Of servers that completions are asked of (generation loop).
  void SetServers(const std::vector<ServerState>& servers);

  Metrics& metrics;
  std::array<prometheus::Gauge*, 4> state;
  std::array<prometheus::Counter*, 5> completions;  // by FinishReason; unspecified is not exported
  std::array<prometheus::Counter*, 5> wait_seconds;
  std::array<prometheus::Counter*, 3> weight_update_failures;

  // Of the learner, or of another worker.
  struct WeightSource {
    prometheus::Counter& bytes;
    prometheus::Counter& whole;
    prometheus::Counter& broken;
  };

  WeightSource learner;  // weight fetcher
  WeightSource relay;
  prometheus::Counter& prompt_tokens;  // generation loop
  prometheus::Counter& generated_tokens;
  prometheus::Histogram& completion_tokens;
  prometheus::Gauge& requests_in_flight;  // generation loop
  prometheus::Gauge& leases_held;         // exchange loop
  prometheus::Gauge& spool_bytes;         // exchange loop
  prometheus::Gauge& weights_version;     // weight updater
  prometheus::Histogram& weight_update_seconds;
  prometheus::Gauge& canary_difference;    // weight updater
  prometheus::Counter& unchanged_weights;  // weight updater
  prometheus::Counter& submit_retries;     // submitter
};

}  // namespace buttress
