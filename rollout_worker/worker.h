// A rollout worker: leases prompts, has the engine complete them, scores, submits. Elastic and
// stateless: what it holds when it dies is leased anew.
//
//   coordinator ◄──────────────── Exchange (held, finished, returned, capacity) ────────────────┐
//        │ leases, revoked, weights                                                             │
//        ▼                                                                                      │
//   exchange loop ──leases──► HeldGroups ──requests──► engine ──► scoring pool ──► HeldGroups ──complete──► Submitter ──► coordinator
//        │                        └────────────── GenerationLoop ───────────────────┘
//        └──manifest──► WeightUpdater ──fetch, verify──► engine.UpdateWeights (between decode steps)
//
//   loop            thread    consumes                  produces                waits for                   unblocked by
//   exchange        caller's  ExchangeResponse          held groups             room for groups, or the     a group that leaves, the
//                                                                               coordinator (long poll)     coordinator's answer
//   GenerationLoop  own       waiting groups, results   scored completions      engine, scoring pool, or    a result, a lease,
//                             of engine and scoring                             any change of the groups    loaded weights
//   Submitter       own (8)   complete groups           acknowledgements        a complete group            the last scored completion
//   WeightUpdater   own       newest manifest           loaded weights          a newer manifest            an Exchange that carries one
//
// Back-pressure: the capacity of HeldGroups bounds everything. Slow submission or scoring keeps
// groups in there, so `capacity` of the next Exchange falls to 0; an engine that is full refuses
// requests, which stay in the loop. Nothing is queued without a lease.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/coordinator_session.h"
#include "rollout_worker/generation_loop.h"
#include "rollout_worker/held_groups.h"
#include "rollout_worker/submitter.h"
#include "rollout_worker/weight_updater.h"

namespace buttress {

struct WorkerOptions {
  std::string worker_id;
  std::size_t capacity_groups = 1;  // held at once
  std::int64_t poll_ms = 5000;    // long poll; a third of the lease, because an Exchange renews it
  std::int64_t drain_ms = 10000;  // for finishing what is held after a request to stop
  std::int64_t weights_patience_ms =
      30000;  // leases that need weights which fail for so long are given back

  // Capacity: what fills `max_running` of the engine, and an eighth more (at least one group) so
  // that it never runs dry.
  static WorkerOptions From(const RunConfig& config, std::string worker_id);
};

// What a worker is made of; all outlive it.
struct WorkerParts {
  CoordinatorSession& control;  // registration and Exchange; its client's patience is the worker's
  CoordinatorSession&
      submissions;  // on a connection of its own, so that no Exchange waits behind a group
  InferenceEngine& engine;
  ScoringPool& scoring;
  WeightFetcher& fetcher;
  const Tokenizer& tokenizer;
  WorkerMetrics& metrics;
};

class Worker {
 public:
  Worker(WorkerParts parts, WorkerOptions options);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Until the run is finished, a stop is requested (both OK), or nothing can be done any more: the
  // coordinator could not be reached for the client's whole patience or the engine is broken
  // (kUnavailable), the configuration differs (kInvalidArgument).
  Status Run();

  // Finish or give back what is held, then leave, as ShutdownRequested() does. Thread-safe.
  void RequestDrain();

 private:
  bool StopRequested() const;
  Status ExchangeLoop();
  // One call; true if it brought something to act on.
  Result<bool> Exchange();
  bool Apply(const v1::ExchangeResponse& response);
  void TakeLease(const v1::Lease& proto);
  void Drain();
  void Cancel(const std::vector<SampleId>& samples);

  WorkerParts parts_;
  const WorkerOptions options_;
  HeldGroups groups_;
  WeightUpdater weights_;
  GenerationLoop generation_;
  Submitter submitter_;
  std::atomic<bool> drain_requested_{false};
  bool run_finished_ = false;
};

}  // namespace buttress
