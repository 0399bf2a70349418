#include <gtest/gtest.h>
#include <torch/types.h>

#include "learner/output/weight_sync.h"
#include "tests/unit/learner/gpu.h"

namespace buttress {
namespace {

TEST(ParameterCopyTest, OnTheCpuTheParametersAreReadWhereTheyAre) {
  const at::Tensor flat = at::arange(8, at::TensorOptions().dtype(at::kFloat));
  const ParameterCopy copy = ParameterCopy::Start({{"a", flat}});
  copy.BlockStream();
  EXPECT_TRUE(copy.in_place());
  ASSERT_EQ(copy.Wait().size(), 1U);
  EXPECT_TRUE(copy.Wait()[0].second.is_alias_of(flat));
}

// The parameters double right after BlockStream, as an update would change them.
void ExpectTheValuesAtTheStart(at::Device device) {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = at::arange(1 << 22, at::TensorOptions().dtype(at::kFloat).device(device));
  const NamedTensors parameters = {{"a", flat.narrow(0, 0, 1024).view({32, 32})},
                                   {"b", flat.narrow(0, 1024, flat.numel() - 1024)}};
  const at::Tensor expected = flat.cpu().clone();
  const ParameterCopy copy = ParameterCopy::Start(parameters);
  EXPECT_FALSE(copy.in_place());
  copy.BlockStream();
  flat.mul_(2);
  const NamedTensors& copies = copy.Wait();
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_EQ(copies[0].first, "a");
  EXPECT_TRUE(copies[1].second.is_pinned());
  EXPECT_TRUE(at::equal(copies[0].second.flatten(), expected.narrow(0, 0, 1024)));
  EXPECT_TRUE(at::equal(copies[1].second, expected.narrow(0, 1024, flat.numel() - 1024)));
  EXPECT_TRUE(at::equal(flat.cpu(), 2 * expected));
}

class ParameterCopyGpuTest : public GpuTest {};

TEST_F(ParameterCopyGpuTest, HoldsTheValuesAtTheStartInPinnedMemory) {
  for (int i = 0; i < 20; ++i) ExpectTheValuesAtTheStart(Gpu());
}

}  // namespace
}  // namespace buttress
