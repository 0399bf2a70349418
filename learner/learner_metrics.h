// The Prometheus families of the learner: every measurement of a step, and those of the job below.
// Rank 0 serves all of them, the other ranks only those with a label `rank`.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "lib/base/report/metrics.h"
#include "lib/measure/alarms.h"
#include "lib/measure/measurements.h"

namespace buttress {

// Not thread-safe; scrapes run at the same time.
class LearnerMetrics {
 public:
  LearnerMetrics(Metrics& metrics, int rank, int world_size, int expected_world_size);

  // Called after each step, on every rank.
  void AddStep(const StepMeasurements& step);

  // Called after each step, on rank 0.
  void AddAlarms(const AlarmMonitor& alarms, std::span<const Alarm> begun);

  void AddCheckpoint(double seconds, std::int64_t bytes);

  void AddCheckpointLoad(double seconds);

 private:
  void AddSource(const SourceMeasurements& source);
  void ObserveCheckpoint(const char* operation, double seconds);

  Metrics& metrics_;
  const MetricLabels rank_label_;
  const bool leads_;
  std::set<std::string> gauges_;  // that were measured once
};

}  // namespace buttress
