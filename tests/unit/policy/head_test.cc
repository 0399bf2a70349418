#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "lib/policy/cpu/block_product.h"
#include "lib/policy/cpu/packed_linear.h"
#include "lib/policy/layers/embedding_and_head.h"

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

// Vocabularies with and without a rest of a block; an odd width, which has no blocks.
TEST(PackedHeadTest, LogitsOfBFloat16AreNotRoundedAndDoNotDependOnOtherRows) {
  torch::manual_seed(2);
  for (const auto& [V, D] : {std::pair(128, 64), std::pair(130, 64), std::pair(70, 63)}) {
    const at::Tensor weight = torch::randn({V, D}).to(at::kBFloat16);
    const PackedHead head(weight);
    const at::Tensor hidden = torch::randn({13, D}).to(at::kBFloat16);
    const at::Tensor exact = at::mm(hidden.to(at::kDouble), weight.to(at::kDouble).t());
    EXPECT_GT(exact.abs().max().item<double>(), 16);
    const at::Tensor all = head.Logits(hidden, 32);
    EXPECT_EQ(all.scalar_type(), at::kFloat);
    for (std::int64_t rows = 1; rows <= 13; ++rows) {
      const at::Tensor some = head.Logits(hidden.narrow(0, 0, rows), 0);
      EXPECT_LT((some.to(at::kDouble) - exact.narrow(0, 0, rows)).abs().max().item<double>(), 1e-4);
      const at::Tensor tile = head.Logits(hidden.narrow(0, 0, rows), 32);
      EXPECT_TRUE(at::equal(tile, all.narrow(0, 0, rows))) << rows << " rows, V = " << V;
    }
  }
}

// BlockProduct is one of several kernels; this one runs where there is no instruction for bfloat16.
TEST(PackedHeadTest, ThePlainKernelGivesTheSameProducts) {
  constexpr std::int64_t kTileRows = 5, kD = 30, kStride = 70;
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({kTileRows, kD}).to(at::kBFloat16);
  const at::Tensor weight = torch::randn({60, kD}).to(at::kBFloat16);
  std::vector<Bf16> block(kBlockRows * kD);
  PackBlock(static_cast<const Bf16*>(weight.const_data_ptr()), 60, kD, block.data());
  const at::Tensor exact = at::mm(x.to(at::kDouble), weight.to(at::kDouble).t());
  for (const auto kernel : {BlockProduct, PlainBlockProduct}) {
    at::Tensor out = torch::full({kTileRows, kStride}, 7.0f);
    kernel({.x = static_cast<const Bf16*>(x.const_data_ptr()),
            .block = block.data(),
            .out = out.mutable_data_ptr<float>(),
            .rows = kTileRows,
            .D = kD,
            .stride = kStride});
    EXPECT_LT((out.narrow(1, 0, 60).to(at::kDouble) - exact).abs().max().item<double>(), 1e-5);
    EXPECT_EQ(out.narrow(1, 60, 4).abs().max().item<float>(), 0);
    EXPECT_TRUE((out.narrow(1, 64, 6) == 7).all().item<bool>());
  }
}

}  // namespace
}  // namespace buttress
