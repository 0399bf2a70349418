// The metrics of the coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/schedule/scheduler_types.h"
#include "lib/base/report/metrics.h"
#include "lib/base/thread/sync.h"
#include "lib/config/run_config.h"
#include "lib/rl/collapse/sources.h"

namespace buttress {

// The metric families of the scheduler. Every scrape reads one state, so that populations add up
// and numerators of ACR match their denominators. After a restart the counters continue from the
// ledger. Thread-safe.
class RunCollector : public prometheus::Collectable {
 public:
  // `plan` is the collapse of the newest plan.
  void Update(SchedulerStatus status, SchedulerEvents events, const CollapseCounts& plan,
              const std::map<std::string, WorkerInfo>& workers, std::int64_t now_ms);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  mutable Mutex mutex_;
  SchedulerStatus status_ GUARDED_BY(mutex_);
  SchedulerEvents events_ GUARDED_BY(mutex_);
  CollapseCounts plan_ GUARDED_BY(mutex_);
  mutable SourceNames names_ GUARDED_BY(mutex_);
  std::int64_t workers_ GUARDED_BY(mutex_) = 0;
  std::int64_t alive_workers_ GUARDED_BY(mutex_) = 0;
};

// Thread-safe.
struct CoordinatorMetrics {
  // buttress_coordinator_store_free_bytes measures the file system of `store_folder`.
  CoordinatorMetrics(Metrics& metrics, const RunConfig& config, const std::string& config_sha256,
                     const std::string& store_folder);

  // Counts an answered call.
  void Handled(std::string_view method, StatusCode code);

  // Counts a submission; `result` is a SubmitOutcomeName, "malformed", "too_large" or
  // "backpressure".
  void Submitted(std::string_view result);

  // Sets buttress_ready and what /readyz answers.
  void SetReady(bool now);

  Metrics& metrics;
  std::shared_ptr<RunCollector> run;
  std::map<std::string, prometheus::Counter*, std::less<>> submissions;
  prometheus::Gauge& ready;
  prometheus::Gauge& run_finished;
  prometheus::Gauge& run_stopped;
  prometheus::Counter& submission_bytes;
  prometheus::Histogram& group_raw_reward_mean;
  prometheus::Histogram& group_staleness_versions;
  prometheus::Gauge& last_batch_committed;
  prometheus::Counter& learner_fenced;
  prometheus::Histogram& store_commit_seconds;
  prometheus::Counter& store_commits;
  prometheus::Counter& store_errors;
  prometheus::Gauge& recovery_seconds;
  prometheus::Gauge& parked_calls;
  prometheus::Gauge& paused;
  prometheus::Counter& stalls;
};

}  // namespace buttress
