// A learner job from its start to its end: join, go on from the newest checkpoint, train step after
// step, publish, checkpoint, leave.
#pragma once

#include <cstdint>
#include <memory>

#include "learner/checkpoint.h"
#include "learner/coordinator_source.h"
#include "learner/learner_metrics.h"
#include "learner/step_log.h"
#include "learner/trainer.h"
#include "learner/weight_sync.h"
#include "lib/base/credentials.h"
#include "lib/base/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"
#include "lib/weights/weight_server.h"

namespace buttress {

// Of one rank; every rank runs the same calls. Rank 0 alone talks to the coordinator, but for
// fetching groups.
class LearnerJob {
 public:
  // Everything must outlive it. `control` carries bytes on the CPU, `tensors` gradients and
  // weights.
  LearnerJob(const RunConfig& config, Collective& control, Collective& tensors, Transformer& model,
             Trainer& trainer, CoordinatorSource& source, LearnerMetrics& metrics,
             const Credentials& credentials);
  ~LearnerJob();

  // OK: the run's last step is settled and <out>/model stands. kCancelled: left on request after a
  // checkpoint.
  Status Run();

 private:
  Status Start();
  Status LoadCheckpoint(CheckpointState& state);
  Status ShareState(CheckpointState& state);
  Status StartPublishing();
  Status TrainUntilEnd();
  Status AfterStep(const StepReport& report);
  Status Record(const StepReport& report, const StepTimes& times);
  Status Publish();
  Status Checkpoint();
  Status Finish();

  bool leads() const { return control_.rank() == 0; }

  const RunConfig& config_;
  const std::chrono::milliseconds timeout_;
  const std::string config_sha256_;
  Collective& control_;
  Collective& tensors_;
  Transformer& model_;
  Trainer& trainer_;
  CoordinatorSource& source_;
  LearnerMetrics& metrics_;
  const Credentials& credentials_;
  CheckpointStore checkpoints_;
  StepLog step_log_;
  // Rank 0.
  AlarmMonitor alarms_;
  std::unique_ptr<WeightServer> server_;
  std::unique_ptr<WeightPublisher> publisher_;
  std::unique_ptr<WeightSync> weight_sync_;
  PolicyVersion version_;  // of the weights as they are
  std::int64_t next_step_ = 1;
  std::int64_t checkpoint_step_ = -1;  // of the newest durable checkpoint
  double step_ended_ = 0;
  double checkpoint_seconds_ = 0;  // of the last, until a step's line has told it
};

}  // namespace buttress
