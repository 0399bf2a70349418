#include "lib/policy/weights/packed_layout.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace buttress {
namespace {

// In bfloat16, 256 + 1 is 256.
TEST(PackedLayoutTest, GradientsOfRepeatedRowsAreSummedInFloat32) {
  const at::Tensor rows = at::ones({2, 1}, at::kBFloat16).requires_grad_();
  const at::Tensor index = at::zeros({400}, at::kLong);
  const at::Tensor repeated = RepeatRows(rows, index);
  EXPECT_EQ(repeated.sizes(), at::IntArrayRef({400, 1}));
  const at::Tensor gradient =
      torch::autograd::grad({repeated}, {rows}, {at::ones({400, 1}, at::kBFloat16)}).front();
  EXPECT_EQ(gradient[0].item<double>(), 400.0);
  EXPECT_EQ(gradient[1].item<double>(), 0.0);
}

}  // namespace
}  // namespace buttress
