// The reports of a job on its steps, and its Prometheus families: every measurement of a step, and
// those of the job below. Rank 0 serves all of them, the other ranks only those with a label
// `rank`.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "learner/coordinator_source.h"
#include "learner/output/eval_exports.h"
#include "learner/step/step_state.h"
#include "lib/base/report/metrics.h"
#include "lib/config/run_config.h"
#include "lib/measure/alarms.h"
#include "lib/measure/measurements.h"
#include "lib/rl/collapse/sources.h"

namespace buttress {

// Not thread-safe; scrapes run at the same time.
class LearnerMetrics {
 public:
  LearnerMetrics(Metrics& metrics, int rank, int world_size, int expected_world_size);

  // Called after each step, on every rank.
  void AddStep(const StepMeasurements& step);

  // Called after each step, on rank 0.
  void AddAlarms(const AlarmMonitor& alarms, std::span<const Alarm> begun);

  // Called after each step, on rank 0, with the sums of all ranks.
  void AddTokenAges(const StepSums& sums);

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

// What a job says of its steps: steps.jsonl, metrics, alarms, the log, and whether and why the run
// ends early. Every rank calls Record; the rest is for rank 0. Not thread-safe.
class StepReports {
 public:
  // The arguments must outlive the object.
  StepReports(const RunConfig& config, CoordinatorSource& source, LearnerMetrics& metrics,
              bool leads);

  // Cuts steps.jsonl off after the step of `start`, and takes the steps in it, which it returns, up
  // again: an alarm that rang before a restart does not ring again, and a source keeps its name.
  Result<std::vector<StepMeasurements>> Replay(const PolicyVersion& start);

  // Completes the measurements of the step and reports them.
  Status Record(StepState& state);

  // Leaves the weights of the step for the evaluator where it is due.
  bool EvaluationIsDue(const PolicyVersion& version) const { return evals_.IsDue(version); }

  void LeaveForEvaluation(const PolicyVersion& version, const Transformer& model) {
    evals_.Leave(version, model);
  }

  // Why the run ends with the last recorded step; rank 0 decides and the others are told.
  const std::optional<EarlyEnd>& early_end() const { return early_end_; }

  void SetEarlyEnd(EarlyEnd end) { early_end_ = std::move(end); }

 private:
  Status RecordOnRank0(StepState& state);

  const std::string path_;  // of steps.jsonl
  CoordinatorSource& source_;
  LearnerMetrics& metrics_;
  const bool leads_;
  AlarmMonitor alarms_;
  Breaker breaker_;
  EvalExports evals_;
  SourceNames source_names_;
  std::optional<EarlyEnd> early_end_;
};

}  // namespace buttress
