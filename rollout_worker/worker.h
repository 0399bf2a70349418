// A rollout worker: leases prompts, samples completions with the engine, scores them and submits
// the groups. A worker may join and leave at any time and keeps no state: the coordinator leases
// the groups of a dead worker again.
//
//   coordinator ◄──────── Exchange (held, finished, returned, capacity) ─────────┐
//        │ leases, revoked, weights                                               │
//        ▼                                                                        │
//   exchange loop ──leases──► HeldGroups ──complete──► Submitter ──► coordinator ─┘
//        │                     │      ▲
//        │             requests│      │scored completions
//        │                     ▼      │
//        │                 engine ──► scoring pool     (both driven by GenerationLoop)
//        │                     ▲
//        │                     │UpdateWeights (between decode steps)
//        └──manifest──► WeightUpdater (fetches and verifies)
//
//   loop            thread    consumes             produces            waits for
//   exchange        caller's  ExchangeResponse     held groups         room for groups, or the
//                                                                      coordinator (long poll)
//   GenerationLoop  own       waiting groups,      scored completions  engine, scoring pool, or a
//                             results of engine                        change of the groups
//                             and scoring pool
//   Submitter       own (8)   complete groups      acknowledgements    a complete group
//   WeightUpdater   own       newest manifest      loaded weights      a newer manifest
//
//   loop            unblocked by
//   exchange        a group that leaves, the coordinator's answer
//   GenerationLoop  a result, a lease, loaded weights
//   Submitter       the last scored completion of a group
//   WeightUpdater   an Exchange that carries a newer manifest
//
// Back-pressure: the capacity of HeldGroups bounds everything. Slow submission or scoring keeps
// groups in HeldGroups, so the capacity in the next Exchange falls to 0. An engine that is full
// rejects requests, which stay in GenerationLoop. Nothing is queued without a lease.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lib/base/os/clock.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/coordinator_session.h"
#include "rollout_worker/generation_loop.h"
#include "rollout_worker/held_groups.h"
#include "rollout_worker/scoring/controls.h"
#include "rollout_worker/submitter.h"
#include "rollout_worker/weight_updater.h"

namespace buttress {

struct WorkerOptions {
  std::string worker_id;
  std::size_t capacity_groups = 1;  // HeldGroups
  std::int64_t poll_ms = 5000;      // long poll; a third of a lease, which an Exchange renews
  std::int64_t partial_ms = 0;      // between reports of unfinished groups; 0 = none
  bool mask_old = false;            // HeldGroups
  bool hold_back = false;           // likewise
  // For the held groups after a request to stop.
  std::int64_t drain_ms = WorkerConfig().drain_ms;
  // The worker returns waiting leases after weights could not be loaded for this long.
  std::int64_t weights_patience_ms = 30000;

  // The capacity is the groups that fill `max_running` of the engine and an eighth more, at least
  // one, so that a row of the engine that becomes free finds a completion. It is a step, at least,
  // where the engine sleeps after a step.
  static WorkerOptions From(const RunConfig& config, std::string worker_id);
};

// The parts of a worker. REQUIRES: all outlive it.
struct WorkerParts {
  // For registration and Exchange. The worker gives up when this session's client does.
  CoordinatorSession& control;
  // Has its own connection, so that no Exchange waits behind a group.
  CoordinatorSession& submissions;
  InferenceEngine& engine;
  ScoringPool& scoring;
  ControlScorer& controls;
  WeightFetcher& fetcher;
  const Tokenizer& tokenizer;
  WorkerMetrics& metrics;
};

class Worker {
 public:
  Worker(WorkerParts parts, WorkerOptions options);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Works until the run is finished or stopped, an operator drains this worker, or a stop is
  // requested, and returns OK. kUnavailable if the coordinator cannot be reached for as long as
  // the client retries, or if the engine is broken; OutOfMemory if the memory of the engine does
  // not suffice; kInvalidArgument if the configuration differs from the coordinator's; kAborted if
  // another run answers than the one that this worker had joined.
  Status Run();

  // Makes Run finish or return the held groups and then return, as ShutdownRequested() does.
  // Thread-safe.
  void RequestDrain();

 private:
  bool StopRequested() const;
  Status ExchangeLoop();
  // Tells the coordinator what the unfinished groups have, if it is time to. Returns whether more
  // is left to tell.
  bool ReportPartials(v1::ExchangeRequest& request);
  // Makes one call; returns true if the response has leases, revocations or new weights.
  Result<bool> Exchange();
  // How long the coordinator may wait for news before it answers `request`.
  std::int64_t WaitMs(const v1::ExchangeRequest& request) const;
  // How long the next news may wait.
  std::int64_t QuietMs() const;
  bool Apply(const v1::ExchangeResponse& response);
  void AddLease(const v1::Lease& proto);
  v1::WorkerTime Time() const;
  v1::WorkerTokens Tokens() const;
  void Drain();
  // Goes on with the held groups until they are submitted, for `budget_ms` at most.
  void Finish(std::int64_t budget_ms);
  void HandOn();
  void Cancel(const std::vector<SampleId>& samples);

  WorkerParts parts_;
  const WorkerOptions options_;
  HeldGroups groups_;
  WeightUpdater weights_;
  GenerationLoop generation_;
  Submitter submitter_;
  std::atomic<bool> drain_requested_{false};
  std::int64_t partials_ms_ = RealClock().MonotonicMs();  // of the newest report
  std::uint64_t coordinator_epoch_ = 0;                   // to which it went
  bool run_ended_ = false;                                // finished or stopped
  bool awaits_weights_ = false;                       // the newest ones are known and not loaded
  std::int64_t news_ms_ = RealClock().MonotonicMs();  // when the coordinator last had news
  const double started_ = MonotonicSeconds();
};

}  // namespace buttress
