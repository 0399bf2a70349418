#include "lib/rl/loss/aggregation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace buttress {
namespace {

// Token losses of the completions a, b, c, d: 18 tokens.
const std::vector<std::vector<double>> kLosses = {
    {1, .5}, std::vector<double>(8, .25), {.5, -.5, .5, 1}, {2, 2, 1, -1}};
const std::vector<std::int32_t> kLengths = {2, 8, 4, 4};
const std::vector<std::int32_t> kGroups = {0, 1, 2, 4};  // a | b | c, d

// Completions [first, last) as one part of the step, in whole groups.
double Aggregate(Aggregation aggregation, double length_norm = 0, std::size_t first = 0,
                 std::size_t last = 4) {
  const LossDenominators whole = CountDenominators(kLengths, kGroups);
  const std::span<const std::int32_t> part =
      std::span<const std::int32_t>(kLengths).subspan(first, last - first);
  std::vector<std::int32_t> offsets;
  for (const std::int32_t offset : kGroups) {
    const auto at = static_cast<std::size_t>(offset);
    if (first <= at && at <= last) offsets.push_back(static_cast<std::int32_t>(at - first));
  }
  const std::vector<double> weights = TokenWeights(aggregation, part, offsets, whole, length_norm);
  double total = 0;
  for (std::size_t i = first; i < last; ++i) {
    total += weights[i - first] * std::accumulate(kLosses[i].begin(), kLosses[i].end(), 0.0);
  }
  return total;
}

TEST(TokenWeightsTest, GiveTheTabulatedValues) {
  EXPECT_NEAR(Aggregate(Aggregation::kTokenMean), 0.5, 1e-12);
  EXPECT_NEAR(Aggregate(Aggregation::kTokenSum), 9, 1e-12);
  EXPECT_NEAR(Aggregate(Aggregation::kGroupTokenMean), (1.5 / 2 + 2.0 / 8 + 5.5 / 8) / 3, 1e-12);
  EXPECT_NEAR(Aggregate(Aggregation::kSeqMeanTokenSum), 2.25, 1e-12);
  EXPECT_NEAR(Aggregate(Aggregation::kSeqMeanTokenSumNorm, 16), 0.140625, 1e-12);
  EXPECT_NEAR(Aggregate(Aggregation::kSeqMeanTokenMean), 0.59375, 1e-12);
}

TEST(TokenWeightsTest, PartsAddUpToTheWholeHoweverTheStepIsSplit) {
  EXPECT_NEAR(Aggregate(Aggregation::kTokenMean, 0, 0, 2), 0.194444, 1e-6);
  EXPECT_NEAR(Aggregate(Aggregation::kTokenMean, 0, 2, 4), 0.305556, 1e-6);
  for (const Aggregation aggregation :
       {Aggregation::kTokenMean, Aggregation::kTokenSum, Aggregation::kGroupTokenMean,
        Aggregation::kSeqMeanTokenMean, Aggregation::kSeqMeanTokenSum}) {
    for (const std::size_t cut : {0u, 1u, 2u, 4u}) {
      EXPECT_NEAR(Aggregate(aggregation, 0, 0, cut) + Aggregate(aggregation, 0, cut, 4),
                  Aggregate(aggregation), 1e-12);
    }
  }
}

TEST(CountDenominatorsTest, LeavesOutCompletionsWithoutTrainedTokens) {
  const std::vector<std::int32_t> lengths = {2, 0, 8, 0};
  const std::vector<std::int32_t> offsets = {0, 2, 3, 4};
  EXPECT_EQ(CountDenominators(lengths, offsets), (LossDenominators{10, 2, 2}));
  const auto weights =
      TokenWeights(Aggregation::kSeqMeanTokenMean, std::vector<std::int32_t>{2, 0, 8},
                   std::vector<std::int32_t>{0, 3}, {10, 2, 2}, 0);
  EXPECT_EQ(weights, (std::vector<double>{0.25, 0.0, 0.0625}));  // 1/(2*2), -, 1/(2*8)
}

}  // namespace
}  // namespace buttress
