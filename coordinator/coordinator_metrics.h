// Everything that the coordinator measures; names follow operations.md 2.4 with the prefix
// buttress_.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/scheduler_types.h"
#include "lib/base/metrics.h"
#include "lib/base/sync.h"
#include "lib/config/run_config.h"

namespace buttress {

// The families that come from the scheduler, all of them from one state: populations add up and the
// numerators of ACR belong to their denominators at every scrape. Counters go on from the ledger
// after a restart. Thread-safe.
class RunCollector : public prometheus::Collectable {
 public:
  // `batch`: collapse of the newest planned batch.
  void Update(SchedulerStatus status, SchedulerEvents events, const CollapseCounts& batch);
  void UpdateWorkers(const std::map<std::string, WorkerInfo>& workers, std::int64_t now_ms);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  mutable Mutex mutex_;
  SchedulerStatus status_ GUARDED_BY(mutex_);
  SchedulerEvents events_ GUARDED_BY(mutex_);
  CollapseCounts batch_ GUARDED_BY(mutex_);
  std::int64_t workers_ GUARDED_BY(mutex_) = 0;
  std::int64_t alive_workers_ GUARDED_BY(mutex_) = 0;
};

// Made once, passed by reference. Thread-safe.
struct CoordinatorMetrics {
  // `store_folder`: whose file system buttress_coordinator_store_free_bytes is about.
  CoordinatorMetrics(Metrics& metrics, const RunConfig& config, const std::string& config_sha256,
                     const std::string& store_folder);

  // Counts a call that was answered.
  void Handled(std::string_view method, StatusCode code);

  // `result`: a SubmitOutcomeName, "malformed", "too_large" or "backpressure".
  void Submitted(std::string_view result);

  Metrics& metrics;
  std::shared_ptr<RunCollector> run;
  std::map<std::string, prometheus::Counter*, std::less<>> submissions;
  prometheus::Gauge& ready;
  prometheus::Counter& submission_bytes;
  prometheus::Histogram& group_reward_mean;
  prometheus::Histogram& group_staleness_versions;
  prometheus::Gauge& last_batch_committed;
  prometheus::Counter& learner_fenced;
  prometheus::Histogram& store_commit_seconds;
  prometheus::Counter& store_commits;
  prometheus::Counter& store_errors;
  prometheus::Gauge& recovery_seconds;
  prometheus::Gauge& parked_calls;
  prometheus::Counter& stalls;
};

}  // namespace buttress
