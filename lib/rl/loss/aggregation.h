// How token losses become one number. The denominators are those of the whole step, over all ranks
// and micro-batches, fixed before the first backward pass, so that the gradient does not depend on
// the split (algorithms.md, section 7).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/rl/loss/loss_choice.h"

namespace buttress {

// With l_it the loss of trained token t of completion i, N all trained tokens, B all completions, K
// all groups, T_i the tokens of completion i, N_k those of group k:
enum class Aggregation : std::uint8_t {
  kTokenMean,  // sum l / N                        DAPO as verl has it: over the whole step
  kTokenSum,   // sum l
  // (1/K) sum_k (1/N_k) sum l        DAPO, arXiv 2503.14476, Eq 8: over each group
  kGroupTokenMean,
  kSeqMeanTokenMean,  // (1/B) sum_i (1/T_i) sum_t l      GRPO, arXiv 2402.03300, Eq 3
  kSeqMeanTokenSum,   // (1/B) sum_i sum_t l
  // (1/(B L)) sum_i sum_t l          Dr. GRPO, arXiv 2503.20783, with a constant L
  kSeqMeanTokenSumNorm,
};

// Rows in the order of Aggregation.
std::span<const LossChoice> Aggregations();

// kInvalidArgument with the choices for an unknown name.
Result<Aggregation> ParseAggregation(std::string_view name);

// Of the whole step. Unscorable completions, completions without trained tokens and groups without
// such are in none.
struct LossDenominators {
  std::int64_t tokens = 0;
  std::int64_t completions = 0;
  std::int64_t groups = 0;

  bool operator==(const LossDenominators&) const = default;
};

// `lengths` [N]: trained tokens of each completion, 0 for the unscorable. Group k owns rows
// [group_offsets[k], group_offsets[k + 1]).
LossDenominators CountDenominators(std::span<const std::int32_t> lengths,
                                   std::span<const std::int32_t> group_offsets);

// [N]: what each trained token of a completion counts in the loss; 0 where lengths is 0. `lengths`
// may be any part of the step's completions in whole groups, `denominators` are the whole step's.
// `length_norm` is L, used by kSeqMeanTokenSumNorm only and then above
// 0. Pure.
std::vector<double> TokenWeights(Aggregation aggregation, std::span<const std::int32_t> lengths,
                                 std::span<const std::int32_t> group_offsets,
                                 const LossDenominators& denominators, double length_norm);

}  // namespace buttress
