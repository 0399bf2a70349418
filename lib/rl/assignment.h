// The assignment of a step, which rank 0 computes from the plan and broadcasts to every rank: the
// advantages over the whole batch, the weight of each token in the loss, and which rank runs which
// completion. Torch-free.
//
// K groups, U updates, N completions in the rows of the plan: completion `index` of group k is row
// group_offsets[k] + index.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/plan.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/collapse_metrics.h"
#include "lib/rl/collapse/difficulty.h"
#include "lib/rl/collapse/sources.h"

namespace buttress {

struct Assignment {
  std::int64_t step = 0;
  std::vector<std::int32_t> rounds;         // [U] by update: micro-batches of every rank
  std::vector<std::uint64_t> group_ids;     // [K]
  std::vector<std::int32_t> group_offsets;  // [K + 1]
  std::vector<std::int32_t> rank_of_group;  // [K] the rank that fetches the group and may run it
  std::vector<std::uint8_t> constant;       // [K] 1 if the raw rewards are all equal
  std::vector<std::int32_t> lengths;        // [N] trained tokens; 0 if unscorable
  std::vector<std::int32_t> update_of_row;  // [N] the update that it is in
  std::vector<std::int32_t> micro_batch;    // [N] micro-batch of its rank; -1 if it is not run
  std::vector<double> advantages;           // [N]
  std::vector<double> entropy_scale;        // [N] for TokenAdvantages, or empty
  // [N] weight of each trained token in the loss of its update; 0 outside of the loss
  std::vector<double> token_weights;
  double entropy_coef = 0;

  std::int32_t updates() const { return static_cast<std::int32_t>(rounds.size()); }

  std::int32_t rounds_of(std::int32_t update) const {
    return rounds[static_cast<std::size_t>(update)];
  }

  bool operator==(const Assignment&) const = default;
};

// What rank 0 knows about a step before any token is run.
struct BatchSummary {
  CollapseCounts collapse;           // of all groups drawn for the step, including replaced ones
  std::int64_t groups_replaced = 0;  // groups drawn for the step that are not in the plan
  std::int64_t groups_masked = 0;    // groups of the plan left out of the loss: zero variance
  // NaN without a completion to take the mean over.
  double reward_mean = std::numeric_limits<double>::quiet_NaN();  // shaped, of the scorable ones
  double accuracy = std::numeric_limits<double>::quiet_NaN();     // correct / (correct + wrong)
  std::int64_t completions = 0;                                   // of the plan
  std::int64_t unscorable = 0;                                    // of them
  std::int64_t overlong_filtered = 0;         // completions left out of the loss by overlong.filter
  std::int64_t tokens = 0;                    // trained tokens in the denominator of the loss
  std::int64_t generated_tokens = 0;          // of all completions
  std::int64_t groups_trained = 0;            // groups that are run through the model
  std::int64_t groups_without_advantage = 0;  // groups of the plan whose advantages are all 0
  std::int64_t near_collapse = 0;             // groups of the plan
  std::int64_t truncated = 0;                 // completions
  std::int64_t groups = 0;                    // of the plan
  std::int64_t comparable_groups = 0;         // of them: constant or mixed
  ExpectedRate expected_acr;                  // of `collapse`
  DrawnTotals drawn;                          // of all groups drawn for the step
  DrawnTotals kept;                           // of those that are neither replaced nor masked
  CollapseCounts kept_collapse;               // of these
  std::vector<SourceMeasurements> sources;    // in the order of the names
  std::int64_t zero_advantage_tokens = 0;
  std::int64_t virtual_groups = 0;  // groups with virtual samples
  double virtual_weight = 0;        // mean confidence weight of these groups
  std::optional<GateReading> gate;  // nullopt for an estimator without a gate
  GateState next_gate;              // for the next step
  GradientMass gradient;            // of the policy loss
  // Steps between the oldest version that sampled a group and the version that the step starts
  // from.
  double age_mean = 0;
  std::int64_t age_max = 0;
};

struct AssignmentOptions {
  RunSettings run;
  std::int64_t micro_batch_tokens = 0;
  std::int32_t ranks = 1;

  // Whether groups without a signal are left out of the loss, its denominators and the statistics
  // of the estimator.
  bool masks_zero_variance() const;

  // Tokens at which the soft overlong penalty is complete.
  std::int64_t overlong_length() const;
};

// Soft overlong punishment (DAPO, arXiv 2503.14476, Eq 13): what is added to the reward of a
// completion of `tokens` tokens, trained or not. With L = `length` and C = `cache` it is 0 up to L
// - C tokens, penalty * ((L - C) - tokens) / C up to L tokens, and -penalty beyond; 0 for C = 0.
// verl has no bound beyond L, which no completion reaches there. Pure. REQUIRES: length >= cache >=
// 0.
double OverlongPenalty(std::int64_t tokens, std::int64_t length, std::int64_t cache,
                       double penalty);

// Computes the advantages over the whole plan, deals it out to updates and places its groups on the
// ranks. Pure. `gate` is the next_gate of the previous step. `kl_penalties`, [N] or empty, are
// subtracted from the rewards. kInvalidArgument if the plan contradicts its collapse counts or the
// estimator rejects it.
Result<Assignment> AssignStep(const Plan& plan, const AssignmentOptions& options,
                              const GateState& gate, BatchSummary& summary,
                              std::span<const double> kl_penalties = {});

// Bytes for a broadcast between ranks of the same build. Decode returns kDataLoss for bytes that
// Encode does not produce.
std::string EncodeAssignment(const Assignment& assignment);
Result<Assignment> DecodeAssignment(std::string_view bytes);

}  // namespace buttress
