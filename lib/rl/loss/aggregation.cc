#include "lib/rl/loss/aggregation.h"

#include <numeric>

#include "lib/base/report/check.h"
#include "lib/experience/group_offsets.h"

namespace buttress {
namespace {

std::int64_t TokensOf(std::span<const std::int32_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

}  // namespace

LossDenominators CountDenominators(std::span<const std::int32_t> lengths,
                                   std::span<const std::int32_t> group_offsets) {
  LossDenominators denominators;
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto group = GroupRows(lengths, group_offsets, k);
    const std::int64_t tokens = TokensOf(group);
    denominators.tokens += tokens;
    denominators.groups += tokens > 0 ? 1 : 0;
    for (const std::int32_t length : group) denominators.completions += length > 0 ? 1 : 0;
  }
  return denominators;
}

std::vector<double> TokenWeights(Aggregation aggregation, std::span<const std::int32_t> lengths,
                                 std::span<const std::int32_t> group_offsets,
                                 const LossDenominators& denominators, double length_norm) {
  BUTTRESS_CHECK(aggregation != Aggregation::kSeqMeanTokenSumNorm || length_norm > 0,
                 "length_norm must be above 0");
  const auto tokens = static_cast<double>(denominators.tokens);
  const auto completions = static_cast<double>(denominators.completions);
  const auto groups = static_cast<double>(denominators.groups);
  std::vector<double> weights(lengths.size(), 0.0);
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    const auto group_tokens = static_cast<double>(TokensOf(GroupRows(lengths, group_offsets, k)));
    for (auto i = static_cast<std::size_t>(group_offsets[k]);
         i < static_cast<std::size_t>(group_offsets[k + 1]); ++i) {
      if (lengths[i] == 0) continue;
      BUTTRESS_CHECK(denominators.tokens >= lengths[i],
                     "the step's denominators count every completion of it");
      switch (aggregation) {
        case Aggregation::kTokenMean:
          weights[i] = 1.0 / tokens;
          break;
        case Aggregation::kTokenSum:
          weights[i] = 1.0;
          break;
        case Aggregation::kGroupTokenMean:
          weights[i] = 1.0 / (groups * group_tokens);
          break;
        case Aggregation::kSeqMeanTokenMean:
          weights[i] = 1.0 / (completions * lengths[i]);
          break;
        case Aggregation::kSeqMeanTokenSum:
          weights[i] = 1.0 / completions;
          break;
        case Aggregation::kSeqMeanTokenSumNorm:
          weights[i] = 1.0 / (completions * length_norm);
          break;
      }
    }
  }
  return weights;
}

}  // namespace buttress
