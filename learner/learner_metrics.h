// Every metric family of the learner. Families with a label `rank` are set on every rank, the others on rank 0 alone.
#pragma once

#include <cstdint>
#include <string>

#include "learner/trainer.h"
#include "lib/base/metrics.h"

namespace buttress {

// Series are made once; updates are thread-safe.
class LearnerMetrics {
 public:
  LearnerMetrics(Metrics& metrics, int rank, int world_size, int expected_world_size, std::int64_t gradient_bytes);

  // After each step.
  void AddStep(const StepReport& report, double step_seconds);

  void AddPublish(double seconds);

  void AddCheckpoint(double seconds, std::int64_t bytes);

  void AddCheckpointLoad(double seconds);

 private:
  prometheus::Counter& Phase(const std::string& name);

  Metrics& metrics_;
  const std::string rank_label_;
  const bool rank_0_;
  const std::int64_t gradient_bytes_;
};

}  // namespace buttress
