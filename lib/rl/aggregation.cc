#include "lib/rl/aggregation.h"

#include <string>

#include "lib/base/check.h"

namespace buttress {

Result<Aggregation> ParseAggregation(std::string_view name) {
  if (name == "token_mean") return Aggregation::kTokenMean;
  if (name == "seq_mean_token_mean") return Aggregation::kSeqMeanTokenMean;
  if (name == "seq_mean_token_sum") return Aggregation::kSeqMeanTokenSum;
  if (name == "seq_mean_token_sum_norm") return Aggregation::kSeqMeanTokenSumNorm;
  return InvalidArgument("algorithm.aggregation = '" + std::string(name) +
                         "' is not known; choose one of: token_mean, seq_mean_token_mean, seq_mean_token_sum, seq_mean_token_sum_norm");
}

LossDenominators CountDenominators(std::span<const std::int32_t> lengths) {
  LossDenominators denominators;
  for (const std::int32_t length : lengths) {
    denominators.tokens += length;
    denominators.completions += length > 0 ? 1 : 0;
  }
  return denominators;
}

std::vector<double> TokenWeights(Aggregation aggregation, std::span<const std::int32_t> lengths, const LossDenominators& denominators,
                                 double length_norm) {
  BUTTRESS_CHECK(aggregation != Aggregation::kSeqMeanTokenSumNorm || length_norm > 0, "length_norm must be above 0");
  const auto tokens = static_cast<double>(denominators.tokens);
  const auto completions = static_cast<double>(denominators.completions);
  std::vector<double> weights(lengths.size(), 0.0);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 0) continue;
    BUTTRESS_CHECK(denominators.tokens >= lengths[i], "the step's denominators count every completion of it");
    switch (aggregation) {
      case Aggregation::kTokenMean: weights[i] = 1.0 / tokens; break;
      case Aggregation::kSeqMeanTokenMean: weights[i] = 1.0 / (completions * lengths[i]); break;
      case Aggregation::kSeqMeanTokenSum: weights[i] = 1.0 / completions; break;
      case Aggregation::kSeqMeanTokenSumNorm: weights[i] = 1.0 / (completions * length_norm); break;
    }
  }
  return weights;
}

}  // namespace buttress
