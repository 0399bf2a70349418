// One training step, on all ranks together. Torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "learner/assignment.h"
#include "learner/batch_source.h"
#include "learner/grad_reducer.h"
#include "learner/loss_report.h"
#include "learner/optimizer.h"
#include "learner/token_batch.h"
#include "lib/base/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"
#include "lib/rl/collapse/monitors.h"
#include "lib/rl/loss/adaptive_entropy.h"
#include "lib/rl/loss/loss.h"

namespace buttress {

// How a step ended.
enum class StepEnd {
  kTrained,
  kFinished,  // there is no such step: the run is over
  kStopped,   // rank 0 was asked to leave before the step began
};

// Seconds of a step by phase; `wait` is for a batch, `reduce` for the other ranks too.
struct StepSeconds {
  double wait = 0, fetch = 0, forward = 0, backward = 0, reduce = 0, optimizer = 0, commit = 0;

  double busy() const { return fetch + forward + backward + reduce + optimizer + commit; }
};

// Rank 0 knows all of it; other ranks know `end`, `skipped` and `seconds`.
struct StepReport {
  StepEnd end = StepEnd::kTrained;
  std::int64_t step = 0;
  BatchSummary batch;
  // Minus the mean log-prob of the sampled tokens of all scorable completions, nats.
  double entropy = 0;
  LossReport loss;
  ResponseProbe responses;  // of all completions
  double entropy_coef = 0;
  double grad_norm = 0;  // before clipping
  double lr = 0;
  bool skipped = false;  // the gradient was not finite: no update
  StepSeconds seconds;
};

struct TrainerOptions {
  RunSettings run;
  LearnerConfig learner;
  std::string bad_batch_path;  // where the plan goes when too many steps in a row were skipped
};

// Everything is held by reference and must outlive the trainer. `control` carries plans and
// statistics on the CPU, `tensors` gradients where the parameters are; they may be the same.
// `reference` is the start model, needed for kl_coef > 0. Not thread-safe.
class Trainer {
 public:
  static Result<std::unique_ptr<Trainer>> Make(TrainerOptions options, Transformer& model,
                                               Transformer* reference, Collective& control,
                                               Collective& tensors, BatchSource& source);

  // Every rank calls it with the same step. `stop_requested` is asked on rank 0 alone, which
  // decides for all. An exception of LibTorch becomes kInternal; kDataLoss after kMaxSkippedInARow
  // gradients that were not finite.
  Result<StepReport> Step(std::int64_t step, const std::function<bool()>& stop_requested);

  AdamW& optimizer() { return optimizer_; }

  // Of all gradients: what a step sums over the ranks.
  std::int64_t gradient_bytes() const { return reducer_.bytes(); }

  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }

  void ResumeSkipped(std::int64_t skipped_in_a_row) { skipped_in_a_row_ = skipped_in_a_row; }

  // What the estimator's gate remembers; known to rank 0 alone.
  const GateState& gate() const { return gate_; }

  void ResumeGate(const GateState& gate) { gate_ = gate; }

  // What the entropy bonus remembers; known to rank 0 alone.
  const EntropyControl& entropy_control() const { return entropy_control_; }

  void ResumeEntropyControl(const EntropyControl& control) { entropy_control_ = control; }

  static constexpr std::int64_t kMaxSkippedInARow = 5;

 private:
  Trainer(TrainerOptions options, LossOptions loss, Transformer& model, Transformer* reference,
          Collective& control, Collective& tensors, BatchSource& source);

  // Of `rows`, completions of the step; the other lists are over their trained tokens, in the same
  // order.
  struct MicroBatch {
    TokenBatch tokens;
    std::vector<std::size_t> rows;
    std::vector<std::int64_t> lengths;  // trained tokens of each row
    std::vector<float> sampler_logprobs, advantages, weights;
    std::vector<std::uint8_t> marked;    // empty: none
    std::vector<std::uint8_t> constant;  // of groups whose raw rewards are all equal
  };

  Status Run(std::int64_t step, const std::function<bool()>& stop_requested, StepReport& report);
  Status AgreeOnPlan(std::int64_t step, const std::function<bool()>& stop_requested,
                     StepReport& report);
  Status AskForPlan(std::int64_t step, const std::function<bool()>& stop_requested,
                    StepReport& report, std::string& message);
  Status FetchOwnGroups();
  Status MarkOwnTokens();
  Status TakeKlOffRewards(StepReport& report);
  MicroBatch Gather(std::int32_t round) const;
  void RunMicroBatch(std::int32_t round, StepReport& report);
  LossInput MakeLossInput(const MicroBatch& batch, const TokenLogprobs& current,
                          std::int32_t round) const;
  at::Tensor ReferenceLogprobs(const MicroBatch& batch) const;
  void AddEntropyAdvantages(const at::Tensor& entropy_M, MicroBatch& batch) const;
  void AddSamplingEntropy();
  void AddResponses();
  Status SumStatistics(StepReport& report);
  Status UpdateWeights(StepReport& report);
  Status WriteBadBatch() const;

  const TrainerOptions options_;
  const LossOptions loss_;
  const AssignmentOptions assignment_options_;
  const std::chrono::milliseconds timeout_;
  Transformer& model_;
  Transformer* const reference_;
  Collective& control_;
  BatchSource& source_;
  GradReducer reducer_;
  AdamW optimizer_;
  std::int64_t skipped_in_a_row_ = 0;
  GateState gate_;
  EntropyControl entropy_control_;

  // Of the step under way.
  Plan plan_;  // rank 0
  Assignment assignment_;
  std::vector<Group> groups_;                               // this rank's
  std::vector<std::size_t> group_rows_;                     // first row of each
  std::vector<bool> group_constant_;                        // raw rewards all equal
  std::map<std::size_t, std::vector<std::uint8_t>> marks_;  // row -> tokens; of clip_cov, kl_cov
  std::vector<at::Tensor> reference_logprobs_;              // [rounds]; of kl_in: reward
  std::vector<double>
      statistics_;  // kLossSums sums, then kSampledNats, kSampledTokens, ResponseProbe, KL mass
};

}  // namespace buttress
