// What rank 0 decides about a step and every rank hears: advantages over the whole batch,
// denominators, who runs what. Torch-free.
//
// K groups, N completions; completion `index` of group k is row group_offsets[k] + index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "learner/batch_source.h"
#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/gradient_share.h"

namespace buttress {

struct StepPlan {
  std::int64_t step = 0;
  std::int32_t rounds = 0;                  // micro-batches that every rank goes through
  std::vector<std::uint64_t> group_ids;     // [K]
  std::vector<std::int32_t> group_offsets;  // [K + 1]
  std::vector<std::int32_t> rank_of_group;  // [K] who fetches it, and runs it if it is run
  std::vector<std::int32_t> lengths;        // [N] trained tokens; 0 for the unscorable
  std::vector<std::int32_t> micro_batch;    // [N] which micro-batch of its rank; -1: not run
  std::vector<double> advantages;           // [N]
  std::vector<double> entropy_scale;        // [N] for TokenAdvantages, or empty
  std::vector<double>
      token_weights;        // [N] of each trained token: the step's denominators; 0 in no loss
  double entropy_coef = 0;  // of the step

  bool operator==(const StepPlan&) const = default;
};

// What rank 0 knows of a step before any token is run.
struct BatchSummary {
  CollapseCounts collapse;           // of all groups drawn for the step, replaced ones included
  std::int64_t groups_replaced = 0;  // of those, not in the plan
  std::int64_t groups_masked =
      0;                   // of the plan, left out of loss and denominators for their zero variance
  double reward_mean = 0;  // shaped, over scorable completions
  double accuracy = 0;     // correct / (correct + wrong)
  std::int64_t unscorable = 0;         // completions
  std::int64_t overlong_filtered = 0;  // completions that overlong.filter leaves out of the loss
  std::int64_t tokens =
      0;  // trained tokens of scorable completions that are not masked: the denominator
  std::int64_t generated_tokens = 0;  // of all completions
  std::int64_t groups_trained = 0;    // run through the model
  std::int64_t zero_advantage_tokens = 0;
  std::int64_t virtual_groups = 0;  // groups with virtual samples
  double virtual_weight = 0;        // their mean confidence weight
  std::optional<GateReading> gate;  // of the estimator, if it has one
  GateState next_gate;              // for the next step
  GradientMass gradient;            // of the policy loss, before a token is run
  // Steps between the version that sampled a group and the one that the step starts from.
  double age_mean = 0;
  std::int64_t age_max = 0;
};

struct StepPlanOptions {
  AlgorithmConfig algorithm;
  bool mask_zero_variance =
      // groups without a signal are in no loss, no denominator and no statistic of the estimator
      false;
  double length_norm = 0;            // L of seq_mean_token_sum_norm
  std::int64_t overlong_length = 0;  // tokens at which the soft punishment is whole
  std::uint64_t seed = 0;            // of the run
  std::int32_t ranks = 1;
  std::int64_t micro_batch_tokens = 0;
};

// Options as the configuration has them.
StepPlanOptions MakeStepPlanOptions(const RunSettings& run, const LearnerConfig& learner,
                                    int ranks);

// Pure. kInvalidArgument if the batch makes no sense. `gate` is next_gate of the step before.
Result<StepPlan> MakeStepPlan(const BatchPlan& batch, const StepPlanOptions& options,
                              const GateState& gate, BatchSummary& summary);

// Bytes for a broadcast between ranks of one build, and back. kDataLoss for anything else.
std::string EncodeStepPlan(const StepPlan& plan);
Result<StepPlan> DecodeStepPlan(std::string_view bytes);

}  // namespace buttress
