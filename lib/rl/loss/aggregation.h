// The aggregation of the losses of tokens to the loss of a step. The denominators are those of the
// whole step, over all ranks and micro-batches, fixed before the first backward pass, so that the
// gradient does not depend on how the step is split.
//
// With l_it the loss of trained token t of completion i, N all trained tokens, B all completions, K
// all groups, T_i the tokens of completion i and N_k those of group k:
//   kTokenMean            sum l / N                     DAPO as verl has it
//   kTokenSum             sum l
//   kGroupTokenMean       (1/K) sum_k (1/N_k) sum l     DAPO, arXiv 2503.14476, Eq 8
//   kSeqMeanTokenMean     (1/B) sum_i (1/T_i) sum_t l   GRPO, arXiv 2402.03300, Eq 3
//   kSeqMeanTokenSum      (1/B) sum_i sum_t l
//   kSeqMeanTokenSumNorm  (1/(B L)) sum_i sum_t l       Dr. GRPO, arXiv 2503.20783, a constant L
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/config/sections/loss_config.h"

namespace buttress {

// Denominators of a whole step. Unscorable completions, completions without trained tokens and
// groups without trained tokens do not count.
struct LossDenominators {
  std::int64_t tokens = 0;
  std::int64_t completions = 0;
  std::int64_t groups = 0;

  bool operator==(const LossDenominators&) const = default;
};

// Counts the denominators. `lengths` [N] are the trained tokens of each completion, 0 for an
// unscorable one; group k owns rows [group_offsets[k], group_offsets[k + 1]).
LossDenominators CountDenominators(std::span<const std::int32_t> lengths,
                                   std::span<const std::int32_t> group_offsets);

// [N] weight of each trained token of a completion in the loss; 0 where lengths is 0. `lengths` may
// be any part of the step's completions in whole groups, `denominators` are the whole step's.
// `length_norm` is L, read by kSeqMeanTokenSumNorm alone, and then above 0. Pure.
std::vector<double> TokenWeights(Aggregation aggregation, std::span<const std::int32_t> lengths,
                                 std::span<const std::int32_t> group_offsets,
                                 const LossDenominators& denominators, double length_norm);

}  // namespace buttress
