// The assignment of a step, which rank 0 computes from the plan and broadcasts to every rank: the
// advantages over the whole batch, the weight of each token in the loss, and which rank runs which
// completion. Torch-free.
//
// K groups, U updates, N completions in the rows of the plan: completion `index` of group k is row
// group_offsets[k] + index.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/plan.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/batch_measurements.h"
#include "lib/rl/collapse/collapse_metrics.h"
#include "lib/rl/micro_batch_shape.h"

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
  std::vector<double> advantages;           // [N]; where turns have their own, their means
  // Of run.env.credit: turn, else empty: completion i has the turns from turn_offsets[i] up to
  // [i + 1], and each its advantage.
  std::vector<std::int32_t> turn_offsets;  // [N + 1]
  std::vector<double> turn_advantages;
  std::vector<double> entropy_scale;  // [N] for TokenAdvantages, or empty
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
struct BatchSummary : BatchMeasurements {
  std::int64_t plan_groups = 0;               // groups of the plan
  std::int64_t groups_without_advantage = 0;  // of them: every advantage is 0
  std::int64_t zero_advantage_tokens = 0;     // of `tokens`
  GradientMass gradient;                      // of the policy loss
  GateState next_gate;                        // for the next step
};

struct AssignmentOptions {
  RunSettings run;
  std::int64_t micro_batch_tokens = 0;
  std::int32_t ranks = 1;
  MicroBatchBound bound = {};

  // Whether groups without a signal are left out of the loss and the statistics of the estimator;
  // with run.batch.denominator: kept, of the denominators as well.
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

// Computes the advantages over the whole plan, of episodes or of turns (run.env.credit), deals it
// out to updates and places its groups on the ranks. The branches of an episode are weighed as its
// tokens: they have its advantage and its update, and denominators count episodes. Pure. `gate` is
// the next_gate of the previous step. `kl_penalties`, [N] or empty, are subtracted from the
// rewards. kInvalidArgument if the plan contradicts its collapse counts or if the estimator rejects
// it.
Result<Assignment> AssignStep(const Plan& plan, const AssignmentOptions& options,
                              const GateState& gate, BatchSummary& summary,
                              std::span<const double> kl_penalties = {});

// Bytes for a broadcast between ranks of the same build. Decode returns kDataLoss for bytes that
// Encode does not produce.
std::string EncodeAssignment(const Assignment& assignment);
Result<Assignment> DecodeAssignment(std::string_view bytes);

}  // namespace buttress
