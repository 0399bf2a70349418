#include "lib/policy/head.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace buttress {
namespace {

// More rows than a block has, and logits up to some 30, where bfloat16 has steps of 1/8.
TEST(HeadTest, LogitsOfBFloat16AreNotRounded) {
  torch::manual_seed(1);
  const at::Tensor hidden = torch::randn({5, 64}).to(at::kBFloat16);
  const at::Tensor head = torch::randn({5000, 64}).to(at::kBFloat16);
  const at::Tensor logits = HeadLogits(hidden, head);
  const at::Tensor exact = at::mm(hidden.to(at::kDouble), head.to(at::kDouble).t());
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
  EXPECT_GT(exact.abs().max().item<double>(), 16);
  EXPECT_LT((logits.to(at::kDouble) - exact).abs().max().item<double>(), 1e-4);
}

}  // namespace
}  // namespace buttress
