#include "lib/policy/decode/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

SamplingParams With(double temperature, double top_p = 1.0, std::int32_t top_k = 0) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_p = top_p;
  params.top_k = top_k;
  return params;
}

std::vector<float> RandomLogits(std::int64_t V, std::uint64_t seed, double spread) {
  std::vector<float> logits(static_cast<std::size_t>(V));
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(spread * NormalAt({seed, 0}, i));
  return logits;
}

std::vector<double> LogSoftmax(const std::vector<float>& logits, double temperature) {
  double total = 0;
  for (const float l : logits) total += std::exp(static_cast<double>(l) / temperature);
  std::vector<double> out;
  for (const float l : logits)
    out.push_back(static_cast<double>(l) / temperature - std::log(total));
  return out;
}

TEST(SamplerTest, TokensFollowTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits = {0.5f, -1.0f, 2.0f, 0.0f, 1.0f};
  const std::vector<double> logp = LogSoftmax(logits, 0.7);
  std::vector<double> counts(logits.size());
  Sampler sampler;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double uniform = (i + 0.5) / kDraws;  // each quantile once, so without a random error
    const auto sampled = sampler.Sample(logits.data(), 5, With(0.7), uniform);
    ++counts[static_cast<std::size_t>(sampled.token)];
    ASSERT_NEAR(sampled.logprob, logp[static_cast<std::size_t>(sampled.token)], 1e-5);
  }
  for (std::size_t i = 0; i < counts.size(); ++i)
    EXPECT_NEAR(counts[i] / kDraws, std::exp(logp[i]), 2e-4);
}

TEST(SamplerTest, MaskedTokensAreNotSampledAndTheLogprobsAreOfTheOthers) {
  // A masked token is e^200 times as probable as the others together.
  const std::vector<float> logits = {0.5f, 200.0f, 2.0f, 0.0f, 201.0f};
  const std::vector<std::int32_t> masked = {1, 4};
  const std::vector<double> logp = LogSoftmax({0.5f, 2.0f, 0.0f}, 0.7);
  Sampler sampler;
  for (const SamplingParams& params : {With(0.7), With(0.7, 1.0, 4)}) {
    for (int i = 0; i < 100; ++i) {
      const auto sampled = sampler.Sample(logits.data(), 5, params, (i + 0.5) / 100, masked);
      ASSERT_TRUE(sampled.token == 0 || sampled.token == 2 || sampled.token == 3);
      const std::size_t left = sampled.token == 0 ? 0 : sampled.token == 2 ? 1 : 2;
      EXPECT_NEAR(sampled.logprob, logp[left], 1e-5);
    }
  }
  EXPECT_EQ(sampler.Sample(logits.data(), 5, With(0), 0, masked).token, 2);
  EXPECT_EQ(sampler.Sample(logits.data(), 5, With(0), 0).token, 4);
}

TEST(SamplerTest, LogprobsOfALargeVocabularyAreThoseOfTheSoftmax) {
  const auto logits = RandomLogits(151936, 3, 3.0);
  const auto logp = LogSoftmax(logits, 1.0);
  Sampler sampler;
  double worst = 0;
  for (int i = 0; i < 50; ++i) {
    const auto sampled =
        sampler.Sample(logits.data(), 151936, {}, UniformAt({1, 0}, static_cast<std::uint64_t>(i)));
    worst = std::max(worst, std::abs(static_cast<double>(sampled.logprob) -
                                     logp[static_cast<std::size_t>(sampled.token)]));
  }
  EXPECT_LT(worst, 2e-5);
}

TEST(SamplerTest, GreedySelectsTheFirstOfTheMostProbable) {
  const std::vector<float> logits = {0.0f, 3.0f, 1.0f, 3.0f};
  Sampler sampler;
  const auto sampled = sampler.Sample(logits.data(), 4, With(0), 0.99);
  EXPECT_EQ(sampled.token, 1);
  EXPECT_NEAR(sampled.logprob, LogSoftmax(logits, 1.0)[1], 1e-6);
}

TEST(SamplerTest, TopKAndTopPKeepTheMostProbableAndRenormalize) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.3f),
                                     std::log(0.15f), std::log(0.05f)};
  Sampler sampler;
  // top_k = 2 keeps 0.4 and 0.3.
  EXPECT_EQ(sampler.Sample(logits.data(), 5, With(1, 1, 2), 0.99).token, 2);
  EXPECT_NEAR(sampler.Sample(logits.data(), 5, With(1, 1, 2), 0.99).logprob, std::log(0.3 / 0.7),
              1e-5);
  // top_p = 0.8 keeps 0.4, 0.3 and 0.15, because 0.85 is the first sum to reach it.
  EXPECT_EQ(sampler.Sample(logits.data(), 5, With(1, 0.8), 0.999).token, 3);
  EXPECT_NEAR(sampler.Sample(logits.data(), 5, With(1, 0.8), 0.0).logprob, std::log(0.4 / 0.85),
              1e-5);
  // top_k = 2 keeps a mass of 0.7. top_p = 0.5 of it is 0.35, which the first token alone reaches.
  EXPECT_EQ(sampler.Sample(logits.data(), 5, With(1, 0.5, 2), 0.99).token, 1);
}

TEST(SamplerTest, TopPOverALargeVocabularyKeepsExactlyTheNucleus) {
  const auto logits = RandomLogits(5000, 9, 1.0);
  auto logp = LogSoftmax(logits, 1.0);
  std::sort(logp.begin(), logp.end(), std::greater<>());
  double mass = 0;
  for (std::size_t i = 0; mass < 0.9; ++i) mass += std::exp(logp[i]);
  Sampler sampler;
  const auto first = sampler.Sample(logits.data(), 5000, With(1, 0.9), 0.0);
  EXPECT_NEAR(first.logprob, logp[0] - std::log(mass), 1e-4);
}

TEST(SamplerTest, AMaskedTokenIsNeverDrawn) {
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {minus_infinity, 0.0f, minus_infinity};
  Sampler sampler;
  for (const double uniform : {0.0, 0.5, 0.9999999999999999})
    EXPECT_EQ(sampler.Sample(logits.data(), 3, {}, uniform).token, 1);
}

TEST(SamplerTest, LogitsThatAreNanOrInfiniteGiveNoToken) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  Sampler sampler;
  for (const float bad : {nan, infinity}) {
    for (const double temperature : {0.0, 1.0}) {
      std::vector<float> logits = RandomLogits(600, 1, 1.0);
      logits[300] = bad;
      EXPECT_EQ(sampler.Sample(logits.data(), 600, With(temperature), 0.5).token, -1);
    }
  }
  const std::vector<float> none(4, -infinity);
  EXPECT_EQ(sampler.Sample(none.data(), 4, {}, 0.5).token, -1);
}

TEST(SamplerTest, TheTopAreTheMostProbableOfTheDistributionThatWasSampled) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.3f),
                                     std::log(0.15f), std::log(0.05f)};
  Sampler sampler;
  const auto top = [&](const SamplingParams& params, std::int32_t most) {
    const SampledToken sampled = sampler.Sample(logits.data(), 5, params, 0.0);
    std::vector<std::int32_t> tokens;
    double mass = 0;
    for (const TokenLogprob& one : sampler.Top(most)) {
      tokens.push_back(one.token);
      mass += std::exp(static_cast<double>(one.logprob));
      if (one.token == sampled.token) {
        EXPECT_EQ(one.logprob, sampled.logprob);
      }
    }
    return std::pair(tokens, std::round(mass * 1e5) / 1e5);
  };
  using Tokens = std::vector<std::int32_t>;
  EXPECT_EQ(top(With(1), 2), std::pair(Tokens({1, 2}), 0.7));
  EXPECT_EQ(top(With(0), 3), std::pair(Tokens({1, 2, 3}), 0.85));
  EXPECT_EQ(top(With(1), 20), std::pair(Tokens({1, 2, 3, 0, 4}), 1.0));
  EXPECT_EQ(top(With(1, 1, 2), 20), std::pair(Tokens({1, 2}), 1.0)) << "top_k keeps two";
  EXPECT_EQ(top(With(1, 0.8), 20), std::pair(Tokens({1, 2, 3}), 1.0)) << "top_p keeps three";
}

// The numbers are those of vllm/model_executor/layers/utils.py (apply_penalties).
TEST(PenaltiesTest, TheyAreThoseOfVllm) {
  const std::vector<std::int32_t> prompt = {0, 1, 1}, completion = {2, 2, 3, 1};
  const auto penalized = [&](const Penalties& penalties) {
    std::vector<float> logits = {1, -1, 2, -2, 4};
    Penalize(penalties, prompt, completion, logits);
    return logits;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(penalized({}), ElementsAre(1, -1, 2, -2, 4));
  EXPECT_THAT(penalized({.repetition = 2}), ElementsAre(0.5, -2, 1, -4, 4));
  EXPECT_THAT(penalized({.presence = 0.5}), ElementsAre(1, -1.5, 1.5, -2.5, 4));
  EXPECT_THAT(penalized({.frequency = 0.5}), ElementsAre(1, -1.5, 1, -2.5, 4));
  EXPECT_THAT(penalized({.repetition = 2, .presence = -1, .frequency = 0.5}),
              ElementsAre(0.5, -1.5, 1, -3.5, 4));
}

}  // namespace
}  // namespace buttress
