#include "learner/step/grad_reducer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "lib/collectives/collective.h"

namespace buttress {
namespace {

class GradReducerTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor Ones(at::IntArrayRef shape) const { return at::ones(shape, GetParam()); }

  at::Tensor GradientOf(std::size_t unit, std::size_t index) const {
    return ViewsOf(units[unit], reducer.part(unit))[index];
  }

  const std::vector<ParameterUnit> units = {
      PackUnit("first", {{"a", Ones({2, 3})}, {"b", Ones({3})}}),
      PackUnit("second", {{"c", Ones({4})}})};
  const std::unique_ptr<Collective> group = MakeLocalCollective();
  GradReducer reducer{units, *group, std::chrono::seconds(1)};
};

TEST_P(GradReducerTest, AddsUpAndTheNormCoversAllParameters) {
  reducer.Add(0, 0, Ones({2, 3}) * 2);
  reducer.Add(0, 1, Ones({3}) * 3);
  reducer.Add(0, 1, Ones({3}));
  reducer.Done(0);
  reducer.Add(1, 0, Ones({4}) * 5);
  reducer.Done(1);
  ASSERT_TRUE(reducer.Reduce().ok());
  EXPECT_NEAR(reducer.SquaredNorm().item<double>(), 6 * 4.0 + 3 * 16.0 + 4 * 25.0, 1e-4);
  reducer.Scale(0.5);
  EXPECT_EQ(GradientOf(0, 1)[0].item<float>(), 2);  // (3 + 1) / 2
  EXPECT_EQ(GradientOf(1, 0)[3].item<float>(), 2.5);
  EXPECT_EQ(reducer.named_gradients().size(), 3u);
  reducer.Clear();
  reducer.SkipRound();
  ASSERT_TRUE(reducer.Reduce().ok());
  EXPECT_EQ(reducer.SquaredNorm().item<double>(), 0);
}

TEST_P(GradReducerTest, ManyMicroBatchesAddUpInFloat32) {
  for (int i = 0; i < 1000; ++i) {
    reducer.Add(1, 0, Ones({4}));
    reducer.Done(1);
  }
  ASSERT_TRUE(reducer.Reduce().ok());
  EXPECT_EQ(reducer.part(1).scalar_type(), at::kFloat);
  EXPECT_EQ(GradientOf(1, 0).min().item<float>(), 1000);
  EXPECT_EQ(GradientOf(1, 0).max().item<float>(), 1000);
}

TEST_P(GradReducerTest, FrozenUnitsTakeNoMemory) {
  std::vector<ParameterUnit> frozen = units;
  frozen[0].trainable = false;
  GradReducer own(frozen, *group, std::chrono::seconds(1));
  own.Add(0, 0, Ones({2, 3}));
  own.SkipRound();
  ASSERT_TRUE(own.Reduce().ok());
  EXPECT_FALSE(own.part(0).defined());
  EXPECT_TRUE(own.part(1).defined());
  EXPECT_EQ(own.named_gradients().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GradReducerTest, testing::Values(at::kFloat, at::kBFloat16));

}  // namespace
}  // namespace buttress
