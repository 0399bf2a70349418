#include "learner/grad_reducer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "lib/collectives/collective.h"

namespace buttress {
namespace {

NamedTensors OneAndTwo(at::ScalarType dtype) {
  return {{"a", at::ones({2, 3}, dtype).requires_grad_(true)},
          {"b", at::ones({3}, dtype).requires_grad_(true)}};
}

class GradReducerTest : public testing::TestWithParam<at::ScalarType> {};

TEST_P(GradReducerTest, AddsUpAndTheNormCoversAllParameters) {
  const NamedTensors parameters = OneAndTwo(GetParam());
  const auto group = MakeLocalCollective();
  GradReducer reducer(parameters, *group, std::chrono::seconds(1));
  const at::Tensor a = parameters[0].second.sum(), b = parameters[1].second.sum();
  reducer.Backward(a * 2 + b * 3);
  reducer.Backward(parameters[0].second.sum() * 0 + parameters[1].second.sum());
  ASSERT_TRUE(reducer.Reduce().ok());
  EXPECT_NEAR(reducer.Norm(), std::sqrt(6 * 4.0 + 3 * 16.0), 1e-5);
  reducer.Scale(0.5);
  EXPECT_EQ(reducer.gradients()[1][0].item<float>(), 2);  // (3 + 1) / 2
  reducer.Zero();
  EXPECT_EQ(reducer.Norm(), 0);
  EXPECT_EQ(reducer.bytes(), 9 * 4);
}

TEST_P(GradReducerTest, ManyMicroBatchesAddUpInFloat32) {
  const NamedTensors parameters = OneAndTwo(GetParam());
  const auto group = MakeLocalCollective();
  GradReducer reducer(parameters, *group, std::chrono::seconds(1));
  for (int i = 0; i < 1000; ++i)
    reducer.Backward(parameters[0].second.sum() + parameters[1].second.sum());
  for (const at::Tensor& gradient : reducer.gradients()) {
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_EQ(gradient.min().item<float>(), 1000);
    EXPECT_EQ(gradient.max().item<float>(), 1000);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GradReducerTest, testing::Values(at::kFloat, at::kBFloat16));

}  // namespace
}  // namespace buttress
