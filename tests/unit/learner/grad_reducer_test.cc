#include "learner/step/grad_reducer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "lib/collectives/collective.h"

namespace buttress {
namespace {

class GradReducerTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor Ones(at::IntArrayRef shape) const { return at::ones(shape, GetParam()); }

  const std::vector<ParameterUnit> units = {{"first", {{"a", Ones({2, 3})}, {"b", Ones({3})}}},
                                            {"second", {{"c", Ones({4})}}}};
  const std::unique_ptr<Collective> group = MakeLocalCollective();
  GradReducer reducer{units, *group, std::chrono::seconds(1)};
};

TEST_P(GradReducerTest, AddsUpAndTheNormCoversAllParameters) {
  reducer.Add(0, 0, Ones({2, 3}) * 2);
  reducer.Add(0, 1, Ones({3}) * 3);
  reducer.Add(0, 1, Ones({3}));
  reducer.Add(1, 0, Ones({4}) * 5);
  ASSERT_TRUE(reducer.Reduce().ok());
  EXPECT_NEAR(reducer.Norm(), std::sqrt(6 * 4.0 + 3 * 16.0 + 4 * 25.0), 1e-5);
  reducer.Scale(0.5);
  ASSERT_EQ(reducer.gradients().size(), 3u);
  EXPECT_EQ(reducer.gradients()[1][0].item<float>(), 2);  // (3 + 1) / 2
  EXPECT_EQ(reducer.gradients()[2][3].item<float>(), 2.5);
  reducer.Clear();
  ASSERT_TRUE(reducer.Reduce().ok());
  EXPECT_EQ(reducer.Norm(), 0);
  EXPECT_EQ(reducer.bytes(), 13 * 4);
}

TEST_P(GradReducerTest, ManyMicroBatchesAddUpInFloat32) {
  for (int i = 0; i < 1000; ++i) reducer.Add(1, 0, Ones({4}));
  ASSERT_TRUE(reducer.Reduce().ok());
  EXPECT_EQ(reducer.gradients()[2].scalar_type(), at::kFloat);
  EXPECT_EQ(reducer.gradients()[2].min().item<float>(), 1000);
  EXPECT_EQ(reducer.gradients()[2].max().item<float>(), 1000);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GradReducerTest, testing::Values(at::kFloat, at::kBFloat16));

}  // namespace
}  // namespace buttress
