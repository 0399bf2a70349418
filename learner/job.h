// A learner job from start to end: register with the newest checkpoint, resume from it, train step
// by step, publish weights, write checkpoints, and write the model.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "learner/coordinator_source.h"
#include "learner/output/checkpoint.h"
#include "learner/output/job_checkpoints.h"
#include "learner/output/publication.h"
#include "learner/step_reports.h"
#include "learner/trainer.h"
#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"

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

  // Returns OK once the last step of the run is settled, or nothing is left to learn, and
  // <out>/model is complete, or after the checkpoint of a run that an operator stops; after a
  // checkpoint, kCancelled on request and NothingToLearn if local.learner.stop_when says so.
  Status Run();

 private:
  Status Start();
  Result<CheckpointState> Register();
  Status RegisterAndReplay(CheckpointState& state);
  Status ShareState(CheckpointState& state);
  Status TrainUntilEnd();
  Status FinishStep(StepState& state);
  Status LastCheckpoint();
  Status OfferEvaluation();
  Status AgreeOnEnd();
  Status ReportEarlyEnd();
  Status Finish();

  bool leads() const { return control_.rank() == 0; }

  std::int64_t step() const { return static_cast<std::int64_t>(version_.step); }

  std::chrono::milliseconds timeout() const {
    return std::chrono::milliseconds(config_.local.learner.collective_timeout_ms);
  }

  const RunConfig& config_;
  Collective& control_;
  Collective& tensors_;
  Transformer& model_;
  Trainer& trainer_;
  CoordinatorSource& source_;
  const Credentials& credentials_;
  JobCheckpoints checkpoints_;
  StepReports reports_;
  std::unique_ptr<Publication> publication_;
  PolicyVersion version_;  // of the current weights
  double step_ended_ = 0;
};

}  // namespace buttress
