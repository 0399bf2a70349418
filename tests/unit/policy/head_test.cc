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
    const at::Tensor all = head.Logits(hidden);
    EXPECT_EQ(all.scalar_type(), at::kFloat);
    EXPECT_LT((all.to(at::kDouble) - exact).abs().max().item<double>(), 1e-4);
    if (D % 2 != 0) continue;
    for (std::int64_t rows = 1; rows <= 13; ++rows) {
      const at::Tensor some = head.Logits(hidden.narrow(0, 0, rows));
      EXPECT_TRUE(at::equal(some, all.narrow(0, 0, rows))) << rows << " rows, V = " << V;
    }
  }
}

at::Tensor RandomOf(at::IntArrayRef sizes, at::ScalarType dtype) {
  return torch::randn(sizes).to(dtype);
}

// The kernel sums as LibTorch does in float64, adds the bias, writes nothing else, and gives each
// row the bits that it has alone.
template <class T, class Out>
void ExpectBlockProducts(void (*kernel)(const BlockProductArgs<T, Out>&), std::int64_t D,
                         at::ScalarType dtype, at::ScalarType out_dtype, double bound) {
  constexpr std::int64_t kRows = 55, kColumns = 60, kStride = 70;
  torch::manual_seed(3);
  const at::Tensor x = RandomOf({kRows, D}, dtype);
  const at::Tensor weight = RandomOf({kColumns, D}, dtype);
  const at::Tensor bias = RandomOf({kColumns}, dtype);
  std::vector<T> block(static_cast<std::size_t>(kBlockRows * D));
  PackBlock(static_cast<const T*>(weight.const_data_ptr()), kColumns, D, block.data());
  const auto product = [&](std::int64_t first, std::int64_t rows) {
    at::Tensor out = torch::full({rows, kStride}, 7.0f).to(out_dtype);
    kernel({.x = static_cast<const T*>(x.const_data_ptr()) + first * D,
            .block = block.data(),
            .bias = static_cast<const T*>(bias.const_data_ptr()),
            .out = static_cast<Out*>(out.mutable_data_ptr()),
            .rows = rows,
            .D = D,
            .columns = kColumns,
            .stride = kStride});
    return out;
  };
  const at::Tensor all = product(0, kRows);
  const at::Tensor exact =
      at::addmm(bias.to(at::kDouble), x.to(at::kDouble), weight.to(at::kDouble).t());
  EXPECT_LT((all.narrow(1, 0, kColumns).to(at::kDouble) - exact).abs().max().item<double>(), bound);
  EXPECT_TRUE((all.narrow(1, kColumns, kStride - kColumns) == 7).all().item<bool>());
  for (const auto& [first, rows] : {std::pair(0, 1), {3, 7}, {20, 16}, {9, 31}, {54, 1}})
    EXPECT_TRUE(at::equal(product(first, rows), all.narrow(0, first, rows))) << first;
}

// BlockProduct chooses one of several kernels by the processor and, in bfloat16, by the width.
TEST(BlockProductTest, EveryKernelGivesTheProductsWithTheBias) {
  ExpectBlockProducts<float, float>(BlockProduct, 30, at::kFloat, at::kFloat, 1e-5);
  ExpectBlockProducts<float, float>(PlainBlockProduct, 30, at::kFloat, at::kFloat, 1e-5);
  for (const std::int64_t D : {30, 96}) {
    ExpectBlockProducts<Bf16, float>(BlockProduct, D, at::kBFloat16, at::kFloat, 1e-4);
    ExpectBlockProducts<Bf16, float>(PlainBlockProduct, D, at::kBFloat16, at::kFloat, 1e-4);
    // The sums are below 64, where bfloat16 has steps of 1/4.
    ExpectBlockProducts<Bf16, Bf16>(BlockProduct, D, at::kBFloat16, at::kBFloat16, 0.126);
    ExpectBlockProducts<Bf16, Bf16>(PlainBlockProduct, D, at::kBFloat16, at::kBFloat16, 0.126);
  }
}

// A learner multiplies with the weight itself, and gives the bits of the packed copy.
TEST(RowProductTest, GivesTheBitsOfThePackedLinear) {
  torch::manual_seed(4);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor weight = RandomOf({150, 34}, dtype);
    const at::Tensor bias = RandomOf({150}, dtype);
    const PackedLinear packed({weight.narrow(0, 0, 70), weight.narrow(0, 70, 80)},
                              {bias.narrow(0, 0, 70), bias.narrow(0, 70, 80)});
    const at::Tensor x = RandomOf({119, 34}, dtype);
    const at::Tensor all = RowProduct(x, weight, bias, dtype);
    EXPECT_TRUE(at::equal(packed.Apply(x), all));
    EXPECT_TRUE(at::equal(packed.Apply(x.narrow(0, 60, 7)), all.narrow(0, 60, 7)));
    EXPECT_LT((all - at::linear(x, weight, bias)).abs().max().item<double>(),
              dtype == at::kFloat ? 1e-4 : 0.3);
    EXPECT_EQ(RowProduct(x.narrow(0, 0, 0), weight, bias, dtype).size(0), 0);
  }
}

}  // namespace
}  // namespace buttress
