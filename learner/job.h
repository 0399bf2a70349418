// A learner job from start to end: register, resume from the newest checkpoint, train step by step,
// publish weights, write checkpoints, and write the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "learner/coordinator_source.h"
#include "learner/learner_metrics.h"
#include "learner/output/checkpoint.h"
#include "learner/output/eval_exports.h"
#include "learner/output/kept_checkpoints.h"
#include "learner/output/weight_sync.h"
#include "learner/trainer.h"
#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"
#include "lib/measure/alarms.h"
#include "lib/measure/breaker.h"
#include "lib/policy/transformer.h"
#include "lib/rl/collapse/sources.h"
#include "lib/weights/weight_server.h"

namespace buttress {

// The job of one rank; every rank makes the same calls. Only rank 0 talks to the coordinator,
// except that every rank fetches its own groups.
class LearnerJob {
 public:
  // The arguments must outlive the job. `control` carries bytes on the CPU, `tensors` gradients and
  // weights.
  LearnerJob(const RunConfig& config, Collective& control, Collective& tensors, Transformer& model,
             Trainer& trainer, CoordinatorSource& source, LearnerMetrics& metrics,
             const Credentials& credentials);
  ~LearnerJob();

  // Returns OK once the last step of the run is settled, or nothing is left to learn, and
  // <out>/model is complete, or after the checkpoint of a run that an operator stops; after a
  // checkpoint, kCancelled on request and NothingToLearn if local.learner.stop_when says so.
  Status Run();

 private:
  Status Start();
  Status LoadCheckpoint(CheckpointState& state);
  Status RegisterAndReplay(CheckpointState& state);
  Status ShareState(CheckpointState& state);
  Status StartPublishing();
  Status TrainUntilEnd();
  Status FinishStep(StepState& state);
  Status Record(StepState& state);
  Status AgreeOnEnd();
  Status Publish();
  Status Checkpoint();
  void KeepBestByReward();
  Status ReportEarlyEnd();
  Status Finish();

  bool leads() const { return control_.rank() == 0; }

  const RunConfig& config_;
  const std::chrono::milliseconds timeout_;
  const std::string config_sha256_;    // of every setting of `run`
  const std::string identity_sha256_;  // of those that a checkpoint is bound to
  Collective& control_;
  Collective& tensors_;
  Transformer& model_;
  Trainer& trainer_;
  CoordinatorSource& source_;
  LearnerMetrics& metrics_;
  const Credentials& credentials_;
  CheckpointStore checkpoints_;

  // Used on rank 0 only.
  AlarmMonitor alarms_;
  Breaker breaker_;
  EvalExports evals_;
  KeptCheckpoints kept_;
  SourceNames source_names_;
  std::unique_ptr<WeightServer> server_;
  std::unique_ptr<WeightPublisher> publisher_;
  std::unique_ptr<WeightSync> weight_sync_;

  PolicyVersion version_;  // of the current weights
  std::int64_t next_step_ = 1;
  std::int64_t steps_ = 0;             // of the run
  std::int64_t checkpoint_step_ = -1;  // of the newest durable checkpoint
  std::string checkpoint_digest_;      // of the same; rank 0 only
  std::optional<EarlyEnd> early_end_;  // the same on all ranks after AgreeOnEnd
  double step_ended_ = 0;
  double weights_waited_ = 0;      // WeightSync::seconds_waited at the end of the last step
  double checkpoint_seconds_ = 0;  // of the last checkpoint, until the next step records it
};

}  // namespace buttress
