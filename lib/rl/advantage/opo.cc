// opo: rewards relative to the group's mean per token, the baseline of least variance when
// gradients of tokens are orthogonal.
#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

BUTTRESS_KERNEL void CenterOnTokenMean(std::span<const double> all_rewards,
                                       std::span<const std::int32_t> all_lengths,
                                       std::span<const std::int32_t> group_offsets,
                                       std::span<double> all_advantages) {
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto rewards = GroupRows(all_rewards, group_offsets, k);
    const TokenSums sums = SumTokens(rewards, GroupRows(all_lengths, group_offsets, k),
                                     [](const auto& x) { return x; });
    if (sums.tokens == 0) continue;
    // The weighted mean of a constant group may differ from its reward by rounding.
    const double baseline = Select(AllEqual(rewards), rewards[0], sums.weighted / sums.tokens);
    Apply({baseline, 1.0}, rewards, GroupRows(all_advantages, group_offsets, k));
  }
}

}  // namespace

Status Opo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  CenterOnTokenMean(input.rewards, input.lengths, input.group_offsets, out.advantages);
  return OkStatus();
}

}  // namespace buttress
