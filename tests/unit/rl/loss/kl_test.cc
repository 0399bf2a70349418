#include "lib/rl/loss/kl.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace buttress {
namespace {

// x = logprobs - ref_logprobs; the derivative of k3 = exp(-x) + x - 1 is 1 - exp(-x), that of k2 =
// x^2 / 2 is x, that of k1 is 1.
TEST(KlGradientMassTest, IsTheSizeOfTheKlTermsDerivative) {
  const double x[] = {0.5, -0.25, 1.0};
  const double weights[] = {0.2, 0.3, 0.5};
  LossInput input;
  input.logprobs_M = torch::tensor({-1.0, -2.0, -0.5}, at::kFloat).requires_grad_(true);
  input.sampler_logprobs_M = torch::tensor({-1.1, -1.5, -0.7}, at::kFloat);
  input.ref_logprobs_M = torch::tensor({-1.5, -1.75, -1.5}, at::kFloat);
  input.advantages_M = torch::tensor({3.0, -2.0, 0.5}, at::kFloat);
  input.weights_M = torch::tensor({0.2, 0.3, 0.5}, at::kFloat);
  const at::Tensor constant_M = torch::tensor({1, 0, 1}, at::kInt).to(at::kBool);
  for (const KlEstimator estimator : {KlEstimator::kK1, KlEstimator::kK2, KlEstimator::kK3}) {
    AlgorithmConfig options;
    options.kl_coef = 0.1;
    options.kl_estimator = estimator;
    double all = 0, constant = 0;
    for (int i = 0; i < 3; ++i) {
      const double derivative = estimator == KlEstimator::kK1   ? 1.0
                                : estimator == KlEstimator::kK2 ? x[i]
                                                                : 1.0 - std::exp(-x[i]);
      const double mass = 0.1 * weights[i] * std::abs(derivative);
      all += mass;
      constant += i == 1 ? 0.0 : mass;
    }
    const at::Tensor mass = KlGradientMass(input, options, constant_M);
    EXPECT_NEAR(mass[0].item<double>(), all, 1e-7);
    EXPECT_NEAR(mass[1].item<double>(), constant, 1e-7);
    EXPECT_FALSE(input.logprobs_M.grad().defined());  // the step's own gradient is unchanged
  }
}

}  // namespace
}  // namespace buttress
