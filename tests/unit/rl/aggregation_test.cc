#include "lib/rl/aggregation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace buttress {
namespace {

// Token losses a, b, c, d of the specification's vectors: 18 tokens.
const std::vector<std::vector<double>> kLosses = {{1, .5}, std::vector<double>(8, .25), {.5, -.5, .5, 1}, {2, 2, 1, -1}};
const std::vector<std::int32_t> kLengths = {2, 8, 4, 4};

double Aggregate(Aggregation aggregation, double length_norm = 0, std::size_t first = 0, std::size_t last = 4) {
  const LossDenominators whole = CountDenominators(kLengths);
  const std::span<const std::int32_t> part = std::span<const std::int32_t>(kLengths).subspan(first, last - first);
  const std::vector<double> weights = TokenWeights(aggregation, part, whole, length_norm);
  double total = 0;
  for (std::size_t i = first; i < last; ++i) {
    total += weights[i - first] * std::accumulate(kLosses[i].begin(), kLosses[i].end(), 0.0);
  }
  return total;
}

TEST(TokenWeightsTest, GiveTheSpecificationsValues) {
  EXPECT_NEAR(Aggregate(Aggregation::kTokenMean), 0.5, 1e-12);
  EXPECT_NEAR(Aggregate(Aggregation::kSeqMeanTokenSum), 2.25, 1e-12);
  EXPECT_NEAR(Aggregate(Aggregation::kSeqMeanTokenSumNorm, 16), 0.140625, 1e-12);
  EXPECT_NEAR(Aggregate(Aggregation::kSeqMeanTokenMean), 0.59375, 1e-12);
}

TEST(TokenWeightsTest, PartsAddUpToTheWholeHoweverTheStepIsSplit) {
  EXPECT_NEAR(Aggregate(Aggregation::kTokenMean, 0, 0, 2), 0.194444, 1e-6);
  EXPECT_NEAR(Aggregate(Aggregation::kTokenMean, 0, 2, 4), 0.305556, 1e-6);
  for (const Aggregation aggregation : {Aggregation::kTokenMean, Aggregation::kSeqMeanTokenMean, Aggregation::kSeqMeanTokenSum}) {
    for (std::size_t cut = 0; cut <= 4; ++cut) {
      EXPECT_NEAR(Aggregate(aggregation, 0, 0, cut) + Aggregate(aggregation, 0, cut, 4), Aggregate(aggregation), 1e-12);
    }
  }
}

TEST(CountDenominatorsTest, LeavesOutCompletionsWithoutTrainedTokens) {
  EXPECT_EQ(CountDenominators(std::vector<std::int32_t>{2, 0, 8, 0}), (LossDenominators{10, 2}));
  const auto weights = TokenWeights(Aggregation::kSeqMeanTokenMean, std::vector<std::int32_t>{2, 0, 8}, {10, 2}, 0);
  EXPECT_EQ(weights, (std::vector<double>{0.25, 0.0, 0.0625}));  // 1/(2*2), -, 1/(2*8)
}

TEST(ParseAggregationTest, UnknownNamesAreAnsweredWithTheChoices) {
  ASSERT_TRUE(ParseAggregation("token_mean").ok());
  const auto unknown = ParseAggregation("mean");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("choose one of: token_mean"), std::string::npos) << unknown.status().message();
}

}  // namespace
}  // namespace buttress
