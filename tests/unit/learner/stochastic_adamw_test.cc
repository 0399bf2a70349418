#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "learner/optimizer/optimizer.h"

namespace buttress {
namespace {

constexpr std::int64_t kUpdated = 100003;  // no multiple of a vector, and more than one share

StochasticAdamWTensors DrawTensors() {
  torch::manual_seed(4);
  return {at::randn({kUpdated}) * 1e-3, (at::randn({kUpdated}) * 0.02).to(at::kBFloat16),
          (at::randn({kUpdated}) * 1e-4).to(at::kBFloat16),
          (at::rand({kUpdated}) * 1e-6).to(at::kBFloat16)};
}

AdamWFactors Factors() {
  AdamWFactors factors;
  factors.keep = 0.999f;
  factors.step_size = 1e-5f;
  factors.beta1 = 0.9f;
  factors.beta2 = 0.99f;
  factors.root_scale = 3;
  factors.eps = 1e-8f;
  return factors;
}

std::vector<at::Tensor> Updated(const StochasticAdamWTensors& t) {
  return {t.parameter, t.first, t.second};
}

TEST(StochasticAdamWTest, OperatorsRoundLikeTheKernel) {
  const RoundingKey key = RoundingKeyOf(1, 2, 3);
  const auto kernel = DrawTensors(), operators = DrawTensors();
  StochasticAdamWStep(kernel, Factors(), key);
  StochasticAdamWByOperators(operators, Factors(), key);
  for (std::size_t i = 0; i < 3; ++i) {
    // Values whose float32 bits differ in the last place may fall on either side of a boundary.
    const at::Tensor differ = Updated(kernel)[i].ne(Updated(operators)[i]);
    EXPECT_LT(differ.to(at::kDouble).mean().item<double>(), 1e-3) << i;
  }
}

TEST(StochasticAdamWTest, BitsDependOnSeedStepAndParameterAlone) {
  const auto once = [](RoundingKey key, int threads) {
    at::set_num_threads(threads);
    const auto tensors = DrawTensors();
    StochasticAdamWStep(tensors, Factors(), key);
    at::set_num_threads(1);
    return tensors.parameter;
  };
  const at::Tensor reference = once(RoundingKeyOf(1, 2, 3), 1);
  EXPECT_TRUE(at::equal(reference, once(RoundingKeyOf(1, 2, 3), 2)));
  EXPECT_FALSE(at::equal(reference, once(RoundingKeyOf(9, 2, 3), 1)));
  EXPECT_FALSE(at::equal(reference, once(RoundingKeyOf(1, 9, 3), 1)));
  EXPECT_FALSE(at::equal(reference, once(RoundingKeyOf(1, 2, 9), 1)));
}

// One value and one update many times over: the mean tells the bias.
TEST(StochasticAdamWTest, RoundingHasNoBias) {
  AdamWFactors factors;
  factors.step_size = 1e-6f;
  factors.eps = 1e-8f;
  const auto values = [](double x) { return at::full({1 << 20}, x, at::kBFloat16); };
  const StochasticAdamWTensors tensors = {at::ones({1 << 20}), values(0.0201), values(0),
                                          values(0)};
  const double start = tensors.parameter[0].item<double>();
  StochasticAdamWStep(tensors, factors, RoundingKeyOf(1, 1, 0));
  const double moved = tensors.parameter.to(at::kDouble).mean().item<double>() - start;
  EXPECT_NEAR(moved, -1e-6, 3e-8);  // the standard error is 1e-8
  const double first = tensors.first.to(at::kDouble).mean().item<double>();
  EXPECT_EQ(first, 1);  // bfloat16 represents it
}

TEST(StochasticAdamWTest, InfinityStaysInfinite) {
  const auto tensors = DrawTensors();
  tensors.second.fill_(std::numeric_limits<double>::infinity());
  StochasticAdamWStep(tensors, Factors(), RoundingKeyOf(1, 1, 1));
  EXPECT_TRUE(at::isinf(tensors.second).all().item<bool>());
}

}  // namespace
}  // namespace buttress
