// Every metric family of the learner. Families with a label `rank` are set on every rank, the
// others on rank 0 alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "learner/trainer.h"
#include "lib/base/metrics.h"
#include "lib/rl/collapse/monitors.h"

namespace buttress {

// Series are made once; updates are thread-safe.
class LearnerMetrics {
 public:
  LearnerMetrics(Metrics& metrics, int rank, int world_size, int expected_world_size,
                 std::int64_t gradient_bytes);

  // After each step.
  void AddStep(const StepReport& report, double step_seconds);

  // Rank 0, after each step; `begun` are the alarms that begin with it.
  void AddAlarms(const AlarmMonitor& alarms, std::span<const Alarm> begun);

  void AddPublish(double seconds);

  void AddCheckpoint(double seconds, std::int64_t bytes);

  void AddCheckpointLoad(double seconds);

 private:
  void AddRank(const StepReport& report);
  void AddJob(const StepReport& report, double step_seconds);
  void SetTraining(const StepReport& report);
  void SetLoss(const LossReport& loss);
  void SetResponses(const StepReport& report);
  void AddPhase(const char* phase, double seconds);
  void ObserveCheckpoint(const char* op, double seconds);

  // `name` without the prefix buttress_learner_.
  void Add(const std::string& name, const char* help, double value,
           const MetricLabels& labels = {});
  void Set(const std::string& name, const char* help, double value,
           const MetricLabels& labels = {});

  Metrics& metrics_;
  const std::string rank_label_;
  const bool rank_0_;
  const std::int64_t gradient_bytes_;
};

}  // namespace buttress
