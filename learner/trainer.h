// One training step on all ranks together. Torch.
//
//   AgreeOnPlan            rank 0 asks for a batch, computes advantages and places the groups
//   FetchGroups            every rank fetches the tokens of its groups
//   SubtractKlFromRewards  kl_in: reward only; rank 0 plans again with the new rewards
//   MarkCovarianceTokens   clip_cov and kl_cov only
//   ForwardBackward        micro-batch by micro-batch; gradients accumulate
//   Reduce                 gradients and sums over the ranks
//   Update                 clipping and the optimizer; skipped if the gradient is not finite, or 0
//   MeasureDrift           rank 0; local.learner.start_kl only
//   Commit                 rank 0 reports the step
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "learner/batch_source.h"
#include "learner/optimizer/optimizer.h"
#include "learner/output/checkpoint.h"
#include "learner/step/context_ranks.h"
#include "learner/step/grad_reducer.h"
#include "learner/step/micro_batch.h"
#include "learner/step/phase_timer.h"
#include "learner/step/shards.h"
#include "learner/step/step_state.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"
#include "lib/policy/model_pass.h"
#include "lib/policy/transformer.h"
#include "lib/rl/loss/loss.h"

namespace buttress {

struct TrainerOptions {
  RunSettings run;
  LearnerConfig learner;
  std::string bad_batch_path;       // where the plan goes when too many steps in a row were skipped
  std::string state_folder = {};    // of optimizer state on disk
  ContextRanks* context = nullptr;  // of local.learner.context_parallel above 1
};

// What a learner that ran out of memory may lower, for the error.
std::string SizesToLower(const LearnerConfig& local);

// Everything is held by reference and must outlive the trainer. `control` carries plans and sums on
// the CPU, `tensors` gradients and weights on the device of the parameters; they may be the same.
// The groups of options.context run the same micro-batches together. The share of `model` is
// ShareOf(tensors, options.learner.zero). `reference` is the start model, needed for kl_coef > 0: a
// model of its own, of the same share or UnitShare::stored, or `model` itself if it trains
// adapters, which are then off. Not thread-safe.
class Trainer {
 public:
  Trainer(TrainerOptions options, Transformer& model, Transformer* reference, Collective& control,
          Collective& tensors, BatchSource& source);

  // Every rank calls it with the same step. It ends with kStopped on all ranks if `stop_requested`
  // returns true on any of them. An exception becomes OutOfMemory or kInternal; kMaxSkippedInARow
  // steps in a row of whose gradients none is finite become kDataLoss.
  Result<StepState> Step(std::int64_t step, const std::function<bool()>& stop_requested);

  // `call` is made before every change of the parameters, by the thread of Step. Its error ends the
  // step.
  void CallBeforeUpdates(std::function<Status()> call) { before_update_ = std::move(call); }

  // `call` is made by rank 0 while it waits for a plan, with the seconds that it has waited. Its
  // error ends the step.
  void CallWhileWaiting(std::function<Status(double seconds)> call) {
    while_waiting_ = std::move(call);
  }

  AdamW& optimizer() { return optimizer_; }

  const TrainerState& state() const { return state_; }

  void Resume(const TrainerState& state) { state_ = state; }

  // Sets the length of the run, which the learning rate follows; that of the options before.
  void SetSteps(std::int64_t steps) { steps_ = steps; }

  static constexpr std::int64_t kMaxSkippedInARow = 5;

 private:
  // What all ranks know of the gradient of an update.
  struct Gradient {
    double norm = 0;    // L2, before clipping
    double old_kl = 0;  // mean k3 of the ratio's old policy from the policy, in nats per token
  };

  Status Run(const std::function<bool()>& stop_requested, StepState& state);
  Status AgreeOnBatch(const std::function<bool()>& stop_requested, StepState& state);
  Status AgreeOnPlan(const std::function<bool()>& stop_requested, StepState& state);
  Status WaitForPeers(StepState& state);
  Result<bool> Fetch(StepState& state);
  Status SubtractKlFromRewards(StepState& state);
  Status MarkCovarianceTokens(StepState& state);
  void KeepLogprobs(StepState& state) const;
  Status MakeUpdates(StepState& state);
  void MeasureDrift(StepState& state);
  Status SumUp(StepState& state);
  Status Commit(StepState& state);

  Result<std::string> AskForPlan(StepState& state);
  std::vector<double> ReferenceKl(const StepState& state) const;
  RowLogprobs LogprobsOf(Transformer& model, StepState& state) const;
  at::Tensor LogprobsOf(Transformer& model, const TokenBatch& tokens) const;
  void RunEmptyRound(StepState& state);
  Status CheckWeights(StepState& state);
  LossSums ForwardBackward(StepState& state, std::int32_t update);
  PassOptions OptionsOfPass(EntropyMode entropy) const;
  ModelPass Forward(const MicroBatch& batch, StepState& state) const;
  LossOutput Loss(MicroBatch& batch, const TokenLogprobs& current, StepState& state,
                  LossSums& sums) const;
  LossInput MakeLossInput(const MicroBatch& batch, const TokenLogprobs& current) const;
  Result<Gradient> Reduce(const LossSums& losses, StepState& state);
  Status Update(const Gradient& gradient, double done, StepState& state);
  Status WriteBadBatch(const Assignment& assignment) const;

  const TrainerOptions options_;
  std::int64_t steps_ = options_.run.steps;
  const AssignmentOptions assignment_options_;
  const std::chrono::milliseconds timeout_;
  Transformer& model_;
  Transformer* const reference_;
  Collective& control_;
  Collective& across_;  // one rank of each context group, for sums over tokens and completions
  Collective& tensors_;
  BatchSource& source_;
  const std::unique_ptr<ShardedUnits> model_shards_, reference_shards_;
  GradReducer reducer_;
  AdamW optimizer_;
  std::function<Status()> before_update_ = [] { return OkStatus(); };
  std::function<Status(double)> while_waiting_ = [](double) { return OkStatus(); };
  mutable PhaseTimer phases_;
  bool drift_due_ = true;  // no step has been trained since the start
  TrainerState state_;
};

}  // namespace buttress
