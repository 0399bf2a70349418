// The metrics of a rollout worker. A comment names the component that sets a metric.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "lib/base/report/metrics.h"
#include "lib/experience/types.h"
#include "lib/weights/fetcher.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/episodes/episode_metrics.h"

namespace buttress {

enum class WorkerState { kStarting, kRunning, kDraining, kStopped };

// What an idle generation loop waits for.
enum class WaitReason { kNoLease, kEngine, kVerifier, kSubmit, kWeights };

// The stage at which a weight update failed: fetching, verifying, or loading into the engine.
enum class WeightStage { kFetch, kChecksum, kApply };

// Thread-safe. REQUIRES: `metrics` outlives it.
struct WorkerMetrics {
  explicit WorkerMetrics(Metrics& metrics);

  // Exactly one state is 1.
  void SetState(WorkerState state);

  // Counts a completion of the engine (generation loop).
  void Count(const EngineResult& result);

  void CountWait(WaitReason reason, double seconds);
  void CountWeightFailure(WeightStage stage);

  // Counts a transfer of weights by gRPC.
  void Count(const WeightTransfer& transfer);

  // Sets the states of the inference servers, and what the proofs of their weights found
  // (generation loop).
  void SetServers(const std::vector<ServerState>& servers);
  void SetProofs(const EngineStats& stats);

  Metrics& metrics;
  EpisodeMetrics episodes;
  std::array<prometheus::Gauge*, 4> state;
  std::array<prometheus::Counter*, 5> completions;  // by FinishReason; null for unspecified
  std::array<prometheus::Counter*, 5> wait_seconds;
  std::array<prometheus::Counter*, 3> weight_update_failures;

  // Transfers from the learner or from another worker.
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
  prometheus::Histogram& idle_seconds;    // generation loop
  prometheus::Gauge& requests_in_flight;  // generation loop
  prometheus::Gauge& leases_held;         // exchange loop
  prometheus::Gauge& spool_bytes;         // exchange loop
  prometheus::Gauge& weights_version;     // weight updater
  prometheus::Gauge& weights_proven;      // generation loop
  prometheus::Histogram& weight_update_seconds;
  prometheus::Gauge& canary_difference;    // generation loop
  prometheus::Counter& unchanged_weights;  // generation loop
  prometheus::Counter& submit_retries;     // submitter
};

}  // namespace buttress
