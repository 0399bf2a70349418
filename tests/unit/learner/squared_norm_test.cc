#include "learner/step/squared_norm.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <cstdio>
#include <limits>

namespace buttress {
namespace {

// The sum in double, slice by slice.
double Exact(const at::Tensor& x) {
  double sum = 0;
  for (const at::Tensor& part : x.flatten().split(1 << 20))
    sum += part.to(at::kDouble).square().sum().item<double>();
  return sum;
}

void ExpectExact(const at::Tensor& x) {
  const double exact = Exact(x);
  EXPECT_NEAR(std::sqrt(SquaredNorm(x).item<double>()), std::sqrt(exact), 1e-6 * std::sqrt(exact));
}

// As many values as the embedding of a model of 0.5B parameters has. One float32 sum for each lane
// is 1.5 % low.
TEST(SquaredNormTest, IsExactForAsManyValuesAsATableHas) {
  torch::manual_seed(1);
  const at::Tensor part = torch::randn({136 << 10, 1});
  ExpectExact(part.expand({136 << 10, 1000}).contiguous());
}

// Takes 1.6 GB.
TEST(SquaredNormTest, DISABLED_IsExactFor400MillionValues) {
  torch::manual_seed(1);
  const at::Tensor x = at::empty({400'000'000}).normal_();
  ExpectExact(x);
  const double exact = std::sqrt(Exact(x));
  std::printf("relative error %.3g\n",
              std::abs(std::sqrt(SquaredNorm(x).item<double>()) - exact) / exact);
}

// Sums whose rounding errors all have one sign, in one lane or in all.
TEST(SquaredNormTest, IsExactWhereRoundingIsBiased) {
  for (const double value : {1.0, 0.1, 0.3, 1.7e-3, 777.77}) {
    ExpectExact(at::full({(1 << 22) + 511}, value));
    at::Tensor one_large = at::full({1 << 22}, value * 1e-4);
    one_large[0] = value;
    ExpectExact(one_large);
  }
}

TEST(SquaredNormTest, CoversAllTensors) {
  const std::vector<at::Tensor> tensors = {at::full({513}, 2.0f), at::full({2, 3}, 3.0f),
                                           at::empty({0})};
  EXPECT_NEAR(SquaredNorm(tensors).item<double>(), 513 * 4 + 6 * 9, 1e-3);
  EXPECT_EQ(SquaredNorm(at::TensorList()).item<double>(), 0);
}

TEST(SquaredNormTest, IsNotFiniteIfAValueIsNot) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    at::Tensor x = at::zeros({2000});
    x[1999] = bad;
    EXPECT_FALSE(std::isfinite(SquaredNorm(x).item<double>()));
  }
}

}  // namespace
}  // namespace buttress
