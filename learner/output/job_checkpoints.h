// When a job writes checkpoints, which ones it keeps (run.checkpoints), and the check that the
// ranks hold the same weights before one is written. Torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "learner/coordinator_source.h"
#include "learner/optimizer/optimizer.h"
#include "learner/output/checkpoint.h"
#include "learner/output/publication.h"
#include "learner/step_reports.h"
#include "learner/trainer.h"
#include "lib/base/os/busy_mark.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

// Returns a number that changes with any one bit of the tensors, and with the order of their names
// but not of their elements.
std::int64_t DigestOf(const NamedTensors& tensors);

// Compares the digests of all ranks; every rank calls it and gets the same answer. kDataLoss names
// the first rank whose tensors `what` differ from those of rank 0.
Status CompareReplicas(const std::string& what, const NamedTensors& tensors, Collective& control,
                       std::chrono::milliseconds timeout);

// Scores checkpoints: by the held-out accuracy of their weights where the run is evaluated, else by
// the mean raw reward of the run.checkpoint_interval steps up to them. For rank 0. Not thread-safe.
class KeptCheckpoints {
 public:
  explicit KeptCheckpoints(const RunConfig& config) : config_(config) {}

  // Takes the mean reward of the next step; after a restart, those of the steps before it first.
  void AddStep(std::int64_t step, double raw_reward_mean);

  // Returns the mean reward up to a checkpoint of the step that was added last; nullopt if run.eval
  // scores, if that step is no multiple of the interval, or without a reward.
  std::optional<double> RewardOfLastStep() const;

  // Returns the steps of `checkpoints` that are kept for their score: the keep_best best, older
  // ones first where scores are equal, and those whose weights still wait for their evaluation.
  std::set<std::int64_t> Kept(std::span<const std::int64_t> checkpoints) const;

 private:
  bool by_eval() const { return config_.run.eval.every > 0; }

  const RunConfig& config_;
  std::deque<double> rewards_;               // of the last checkpoint_interval steps
  std::map<std::int64_t, double> rewarded_;  // mean reward by step of a checkpoint
  std::int64_t last_step_ = 0;
};

// The checkpoints of a job in <out>/checkpoint, and the best model by reward. Every rank makes the
// same calls, except those for rank 0. Not thread-safe.
class JobCheckpoints {
 public:
  // The arguments must outlive the object.
  JobCheckpoints(const RunConfig& config, Collective& control, Transformer& model, Trainer& trainer,
                 CoordinatorSource& source, LearnerMetrics& metrics);

  const std::string& folder() const { return folder_; }

  // Returns the state of the newest complete checkpoint of a step below `before`; that of a new run
  // without one. kInvalidArgument if it was written with other settings of `run`.
  Result<CheckpointState> Find(std::int64_t before);

  // Loads the checkpoint that was found last, if any, into model and optimizer. kInvalidArgument if
  // it is of another model.
  Status Load();

  // The coordinator has accepted that the learner of `epoch` starts from `step`. For rank 0.
  Status StartFrom(std::int64_t step, std::uint64_t epoch) { return store_.StartFrom(step, epoch); }

  // Takes the mean reward of the next step (KeptCheckpoints::AddStep). For rank 0.
  void AddStep(std::int64_t step, double raw_reward_mean) { kept_.AddStep(step, raw_reward_mean); }

  // Starts to write the checkpoint of `version`, once the one before is complete and what all ranks
  // hold is found to be the same. Does nothing if it exists already.
  Status Begin(const PolicyVersion& version, Publication* publication);

  // Called before an update changes what is being written (CheckpointStore::BeforeUpdate).
  void BeforeUpdate();

  // Reports the checkpoint that is being written to the coordinator, once it is complete on all
  // ranks, for which it waits if `wait` says so. `version` is the newest one.
  Status Finish(bool wait, const PolicyVersion& version, Publication* publication);

  // Reports that the run ends with the newest checkpoint, so that workers and coordinator leave.
  // For rank 0.
  Status ReportEnd(const std::string& why);

  // Whether the job has started from a checkpoint or written one.
  bool any() const { return step_ >= 0; }

  // The seconds that checkpoints have held up training since the last call.
  double TakeSeconds() { return std::exchange(seconds_, 0); }

  // The seconds for which the checkpoint that was completed since the last call was being written,
  // while training continued; on rank 0.
  double TakeWriteSeconds() { return std::exchange(seconds_write_, 0); }

 private:
  bool leads() const { return control_.rank() == 0; }

  Status Report(const SavedCheckpoint& saved, const PolicyVersion& version,
                Publication& publication);
  Status KeepBestByReward();

  const RunConfig& config_;
  const std::string folder_;
  Collective& control_;
  Transformer& model_;
  Trainer& trainer_;
  CoordinatorSource& source_;
  LearnerMetrics& metrics_;
  const std::chrono::milliseconds timeout_;
  CheckpointStore store_;
  KeptCheckpoints kept_;
  std::optional<StoredCheckpoint> found_;  // to be loaded
  std::int64_t step_ = -1;                 // of the newest complete checkpoint, -1 without one
  std::int64_t begun_ = -1;                // of the newest one, complete or not
  std::string digest_;                     // of the newest complete one
  std::optional<BusyMark> mark_;
  double seconds_find_ = 0;
  double seconds_ = 0;
  double seconds_write_ = 0;
};

}  // namespace buttress
