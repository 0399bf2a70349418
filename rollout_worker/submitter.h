// Submits complete groups to the coordinator, on its own threads, until each one is answered or its
// lease is lost.
#pragma once

#include <thread>
#include <vector>

#include "lib/base/net/retry.h"
#include "lib/base/thread/sync.h"
#include "rollout_worker/coordinator_session.h"
#include "rollout_worker/held_groups.h"
#include "rollout_worker/worker_metrics.h"

namespace buttress {

// Owns its threads. REQUIRES: the arguments outlive it.
class Submitter {
 public:
  Submitter(CoordinatorSession& session, HeldGroups& groups, WorkerMetrics& metrics)
      : session_(session), groups_(groups), metrics_(metrics) {}

  ~Submitter() { Stop(); }

  Submitter(const Submitter&) = delete;
  Submitter& operator=(const Submitter&) = delete;

  void Start();

  // Ends each thread after its current call. Idempotent.
  void Stop();

 private:
  void Run();
  void Submit(CompleteGroup group, Backoff& backoff);

  CoordinatorSession& session_;
  HeldGroups& groups_;
  WorkerMetrics& metrics_;
  StopSignal stop_;
  std::vector<std::thread> threads_;
};

}  // namespace buttress
