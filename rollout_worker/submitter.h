// Sends complete groups to the coordinator, from threads of its own, until each is acknowledged or no longer ours.
#pragma once

#include <thread>
#include <vector>

#include "lib/base/retry.h"
#include "lib/base/sync.h"
#include "rollout_worker/coordinator_session.h"
#include "rollout_worker/group_table.h"
#include "rollout_worker/worker_metrics.h"

namespace buttress {

// Owns its threads; the arguments outlive it.
class Submitter {
 public:
  Submitter(CoordinatorSession& session, GroupTable& table, WorkerMetrics& metrics)
      : session_(session), table_(table), metrics_(metrics) {}

  ~Submitter() { Stop(); }

  Submitter(const Submitter&) = delete;
  Submitter& operator=(const Submitter&) = delete;

  void Start();

  // Ends the threads after the call that each is in. Safe to repeat.
  void Stop();

 private:
  void Run();
  void Submit(const CompleteGroup& group, Backoff& backoff);

  CoordinatorSession& session_;
  GroupTable& table_;
  WorkerMetrics& metrics_;
  StopSignal stop_;
  std::vector<std::thread> threads_;
};

}  // namespace buttress
