// The expected values were computed in plain Python, in double precision, from the formulas of the
// papers.
#include "lib/rl/loss/loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor Vector(const std::vector<double>& values) { return torch::tensor(values, at::kFloat); }

std::vector<double> Values(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance) << "element " << i;
}

// Sequences S1 (three tokens, A = 1.2) and S2 (five tokens, A = -0.7), packed.
const std::vector<double> kLogprobs = {-.5, -1.2, -.1, -.2, -2.0, -.7, -.3, -1.1};
const std::vector<double> kLogRatios = {.10, -.30, .40, .25, -.25, 1.50, .05, -.05};
const AlgorithmConfig kDapo = {.clip_low = 0.2, .clip_high = 0.28, .dual_clip = 3.0};

LossInput Vectors(const std::vector<double>& sequence_weights) {
  LossInput input;
  std::vector<double> old(kLogprobs);
  for (std::size_t i = 0; i < old.size(); ++i) old[i] -= kLogRatios[i];
  input.logprobs_M = Vector(kLogprobs).requires_grad_(true);
  input.sampler_logprobs_M = Vector(old);
  input.advantages_M = Vector({1.2, 1.2, 1.2, -.7, -.7, -.7, -.7, -.7});
  const double w1 = sequence_weights[0];
  const double w2 = sequence_weights[1];
  input.weights_M = Vector({w1, w1, w1, w2, w2, w2, w2, w2});
  return input;
}

TEST(PolicyLossTest, CountsClippedTokensAndTheDistanceToTheSampler) {
  const LossOutput out = ComputeLoss(Vectors({1, 1}), kDapo);
  EXPECT_EQ(out.metric(LossMetric::kTokens).item<double>(), 8);
  EXPECT_EQ(out.metric(LossMetric::kDropped).item<double>(), 0);
  EXPECT_EQ(out.metric(LossMetric::kClippedHigh).item<double>(), 1);  // d = .40 at A > 0
  EXPECT_EQ(out.metric(LossMetric::kClippedLow).item<double>(), 1);   // d = -.25 at A < 0
  EXPECT_EQ(out.metric(LossMetric::kClippedDual).item<double>(), 1);  // d = 1.50 at A < 0
  EXPECT_NEAR(out.metric(LossMetric::kSamplerKlK1).item<double>() / 8, -.2125, 1e-6);
  double k3 = 0;
  double ratio = 0;
  double squared = 0;
  for (const double d : kLogRatios) {
    k3 += std::exp(d) - 1 - d;
    ratio += std::exp(d);
    squared += std::exp(2 * d);
  }
  EXPECT_NEAR(out.metric(LossMetric::kSamplerKlK3).item<double>(), k3, 1e-5);
  EXPECT_NEAR(out.metric(LossMetric::kRatio).item<double>(), ratio, 1e-5);
  EXPECT_NEAR(out.metric(LossMetric::kRatioSquared).item<double>(), squared, 1e-4);
}

TEST(PolicyLossTest, WithoutDualClipALargeRatioIsNotBounded) {
  AlgorithmConfig options = kDapo;
  options.dual_clip = 0;
  const LossInput input = Vectors({1, 1});
  ComputeLoss(input, options).loss_sum.backward();
  EXPECT_NEAR(Values(input.logprobs_M.grad())[5], .7 * std::exp(1.5), 1e-5);  // -A ratio
}

TEST(LossTest, DroppedTokensHaveNoLossAndNoGradientEvenWhereTheyAreNotFinite) {
  LossInput input = Vectors({1, 1});
  const double plain = ComputeLoss(input, kDapo).loss_sum.item<double>();
  LossInput longer = input;
  const at::Tensor nowhere = Vector({-kInfinity, kNan});
  longer.logprobs_M = at::cat({input.logprobs_M.detach(), nowhere}).requires_grad_(true);
  longer.sampler_logprobs_M = at::cat({input.sampler_logprobs_M, nowhere});
  longer.advantages_M = at::cat({input.advantages_M, Vector({3, kNan})});
  longer.weights_M = at::cat({input.weights_M, Vector({1, 1})});
  const LossOutput out = ComputeLoss(longer, kDapo);
  out.loss_sum.backward();
  EXPECT_EQ(out.loss_sum.item<double>(), plain);
  EXPECT_EQ(out.metric(LossMetric::kTokens).item<double>(), 8);
  EXPECT_EQ(out.metric(LossMetric::kDropped).item<double>(), 2);
  EXPECT_EQ(Values(longer.logprobs_M.grad().slice(0, 8)), (std::vector<double>{0, 0}));
}

TEST(LossTest, TokensWithoutAFiniteOldLogprobAreDroppedAndCounted) {
  LossInput input = Vectors({1, 1});
  input.sampler_logprobs_M[0] = kNan;
  input.sampler_logprobs_M[4] = -kInfinity;
  const LossOutput out = ComputeLoss(input, kDapo);
  out.loss_sum.backward();
  EXPECT_EQ(out.metric(LossMetric::kDropped).item<double>(), 2);
  EXPECT_EQ(out.metric(LossMetric::kTokens).item<double>(), 6);
  EXPECT_NEAR(out.loss_sum.item<double>(), 1.209381 + 1.326205 - .56,
              2e-6);  // without the losses of the two tokens, with unchanged weights
  const auto gradient = Values(input.logprobs_M.grad());
  EXPECT_EQ(gradient[0], 0);
  EXPECT_EQ(gradient[4], 0);
  EXPECT_NE(gradient[1], 0);
}

TEST(LossTest, ALearnersOwnNanIsNotHidden) {
  LossInput input = Vectors({1, 1});
  input.logprobs_M.detach()[2] = kNan;
  EXPECT_TRUE(std::isnan(ComputeLoss(input, kDapo).loss_sum.item<double>()));
}

TEST(KlLossTest, GivesTheTabulatedValuesAndGradients) {
  const std::vector<double> x = {.2, -.3, 0, -2, 30};
  const std::vector<double> k3 = {.018731, .049859, 0, 4.389056, 10};
  const std::vector<std::vector<double>> values = {x, {.02, .045, 0, 2, 450}, k3, k3};
  const std::vector<std::vector<double>> gradients = {
      {1, 1, 1, 1, 1}, x, {.181269, -.349859, 0, -6.389056, 0}, x};
  const KlEstimator estimators[] = {KlEstimator::kK1, KlEstimator::kK2, KlEstimator::kK3,
                                    KlEstimator::kK3Plus};
  for (std::size_t e = 0; e < 4; ++e) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      LossInput input;
      input.logprobs_M = Vector({x[i] - 31}).requires_grad_(true);
      input.sampler_logprobs_M = input.logprobs_M.detach().clone();
      input.advantages_M = Vector({0});
      input.weights_M = Vector({1});
      input.ref_logprobs_M = Vector({-31});
      const LossOutput out = ComputeLoss(input, {.kl_coef = 0.5, .kl_estimator = estimators[e]});
      out.loss_sum.backward();
      EXPECT_NEAR(out.metric(LossMetric::kRefKl).item<double>(), values[e][i], 2e-5);
      EXPECT_NEAR(out.metric(LossMetric::kKlLoss).item<double>(), 0.5 * values[e][i], 2e-5);
      EXPECT_NEAR(out.loss_sum.item<double>(), 0.5 * values[e][i], 2e-5);
      EXPECT_NEAR(input.logprobs_M.grad().item<double>(), 0.5 * gradients[e][i], 2e-5);
    }
  }
}

TEST(KlLossTest, WithoutACoefficientItIsMeasuredAndNotTrained) {
  LossInput input = Vectors({1, 1});
  input.ref_logprobs_M = input.sampler_logprobs_M;
  const LossOutput out = ComputeLoss(input, kDapo);
  EXPECT_NEAR(out.loss_sum.item<double>(), 1.209381, 2e-6);
  EXPECT_GT(out.metric(LossMetric::kRefKl).item<double>(), 0);
  EXPECT_EQ(out.metric(LossMetric::kKlLoss).item<double>(), 0);
}

TEST(EntropyBonusTest, LowersTheLossByCoefficientTimesEntropy) {
  LossInput input = Vectors({0.5, 0.25});
  input.entropy_M = Vector({1, 2, 3, 4, 5, 6, 7, 8}).requires_grad_(true);
  const double plain = ComputeLoss(input, kDapo).loss_sum.item<double>();
  AlgorithmConfig options = kDapo;
  options.entropy_coef = 0.01;
  const LossOutput out = ComputeLoss(input, options);
  out.loss_sum.backward();
  EXPECT_NEAR(out.loss_sum.item<double>(), plain - 0.01 * (0.5 * 6 + 0.25 * 30), 1e-6);
  EXPECT_EQ(out.metric(LossMetric::kEntropy).item<double>(), 36);
  ExpectNear(Values(input.entropy_M.grad()),
             {-.005, -.005, -.005, -.0025, -.0025, -.0025, -.0025, -.0025}, 1e-8);
}

// A random micro-batch whose log-ratios keep away from the kinks of clipping, where finite
// differences are meaningless.
LossInput RandomInput(RandomStream& random, std::int64_t tokens, const AlgorithmConfig& options) {
  std::vector<double> logprobs, old, advantages, weights, reference, entropy;
  for (std::int64_t i = 0; i < tokens; ++i) {
    double ratio = 0;
    do {
      ratio = std::exp(1.5 * (random.Uniform() - 0.4));
    } while (std::abs(ratio - (1 - options.clip_low)) < .05 ||
             std::abs(ratio - (1 + options.clip_high)) < .05 ||
             std::abs(ratio - options.dual_clip) < .1);
    logprobs.push_back(-3 * random.Uniform());
    old.push_back(logprobs.back() - std::log(ratio));
    advantages.push_back(random.Normal());
    weights.push_back(random.Uniform() / static_cast<double>(tokens));
    reference.push_back(logprobs.back() + 0.5 * random.Normal());
    entropy.push_back(3 * random.Uniform());
  }
  LossInput input;
  input.logprobs_M = Vector(logprobs).requires_grad_(true);
  input.sampler_logprobs_M = Vector(old);
  input.advantages_M = Vector(advantages);
  input.weights_M = Vector(weights);
  input.ref_logprobs_M = Vector(reference);
  input.entropy_M = Vector(entropy);
  return input;
}

TEST(LossProperty, GradientsAgreeWithFiniteDifferences) {
  RandomStream random({20260101, 40});
  for (const KlEstimator estimator : {KlEstimator::kK1, KlEstimator::kK2, KlEstimator::kK3}) {
    const AlgorithmConfig options = {.clip_high = 0.28,
                                     .dual_clip = 3.0,
                                     .kl_coef = 0.1,
                                     .kl_estimator = estimator,
                                     .entropy_coef = 0.01};
    const std::int64_t tokens = 24;
    const LossInput input = RandomInput(random, tokens, options);
    ComputeLoss(input, options).loss_sum.backward();
    const auto gradient = Values(input.logprobs_M.grad());
    const double h = 5e-3;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto at_offset = [&](double offset) {
        LossInput moved = input;
        moved.logprobs_M = input.logprobs_M.detach().clone();
        moved.logprobs_M[i] += offset;
        return ComputeLoss(moved, options).loss_sum.item<double>();
      };
      const double difference = (at_offset(h) - at_offset(-h)) / (2 * h);
      EXPECT_NEAR(difference, gradient[static_cast<std::size_t>(i)], 2e-4) << "token " << i;
    }
  }
}

TEST(LossProperty, SplittingIntoMicroBatchesChangesNothingBeyondRounding) {
  RandomStream random({20260101, 41});
  const AlgorithmConfig options = {
      .clip_high = 0.28, .dual_clip = 3.0, .kl_coef = 0.1, .entropy_coef = 0.01};
  for (int trial = 0; trial < 20; ++trial) {
    const std::int64_t tokens = 2 + static_cast<std::int64_t>(random.Below(60));
    const std::int64_t cut =
        1 + static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(tokens - 1)));
    LossInput whole = RandomInput(random, tokens, options);
    const LossOutput at_once = ComputeLoss(whole, options);
    at_once.loss_sum.backward();
    const at::Tensor gradient = whole.logprobs_M.grad().clone();
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      LossInput input;
      input.logprobs_M =
          whole.logprobs_M.detach().slice(0, begin, end).clone().requires_grad_(true);
      input.sampler_logprobs_M = whole.sampler_logprobs_M.slice(0, begin, end);
      input.advantages_M = whole.advantages_M.slice(0, begin, end);
      input.weights_M = whole.weights_M.slice(0, begin, end);
      input.ref_logprobs_M = whole.ref_logprobs_M.slice(0, begin, end);
      input.entropy_M = whole.entropy_M.slice(0, begin, end);
      return input;
    };
    const LossInput first = part(0, cut);
    const LossInput second = part(cut, tokens);
    const LossOutput first_out = ComputeLoss(first, options);
    const LossOutput second_out = ComputeLoss(second, options);
    (first_out.loss_sum + second_out.loss_sum).backward();
    EXPECT_NEAR((first_out.loss_sum + second_out.loss_sum).item<double>(),
                at_once.loss_sum.item<double>(), 1e-6);
    EXPECT_TRUE(at::equal(at::cat({first.logprobs_M.grad(), second.logprobs_M.grad()}), gradient));
    EXPECT_TRUE(at::allclose(first_out.metrics + second_out.metrics, at_once.metrics, 1e-5, 1e-5));
  }
}

TEST(LossTest, AnEmptyMicroBatchHasNoLossAndNoMetrics) {
  LossInput input;
  input.logprobs_M = Vector({}).requires_grad_(true);
  input.sampler_logprobs_M = input.advantages_M = input.weights_M = Vector({});
  const LossOutput out = ComputeLoss(input, kDapo);
  EXPECT_EQ(out.loss_sum.item<double>(), 0);
  EXPECT_EQ(out.metrics.abs().sum().item<double>(), 0);
}

TEST(LossTest, OtherPrecisionsAreComputedInFloat32) {
  LossInput input = Vectors({1, 1});
  input.logprobs_M = input.logprobs_M.detach().to(at::kDouble).requires_grad_(true);
  const LossOutput out = ComputeLoss(input, kDapo);
  out.loss_sum.backward();
  EXPECT_EQ(out.loss_sum.scalar_type(), at::kFloat);
  EXPECT_EQ(input.logprobs_M.grad().scalar_type(), at::kDouble);
}

TEST(KlLossCoefTest, IsZeroWhereTheKlTermIsInTheReward) {
  EXPECT_EQ(KlLossCoef({.kl_coef = 0.1}), 0.1);
  EXPECT_EQ(KlLossCoef({.kl_coef = 0.1, .kl_in = KlPlace::kReward}), 0.0);
}

}  // namespace
}  // namespace buttress
