#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "lib/policy/layers/embedding_and_head.h"

namespace buttress {
namespace {

TEST(EmbeddingTest, AFrequentTokenSumsItsGradientInFloat32) {
  const at::Tensor tokens = at::cat({at::full({2000}, 3, at::kLong), at::full({7}, 1, at::kLong)});
  const EmbeddingGradient gradient = EmbedBackward(tokens, at::ones({2007, 3}, at::kBFloat16));
  EXPECT_TRUE(at::equal(gradient.rows_U, torch::tensor({1, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(gradient.grad_UD,
                        torch::tensor({{7.0, 7.0, 7.0}, {2000.0, 2000.0, 2000.0}}, at::kFloat)));
}

TEST(EmbeddingTest, EqualsTheEmbeddingOfLibTorch) {
  torch::manual_seed(1);
  const at::Tensor tokens = torch::randint(0, 20, {50}, at::kLong);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor grad = torch::randn({50, 4}).to(dtype);
    const at::Tensor table = torch::randn({20, 4}).to(dtype).requires_grad_(true);
    const at::Tensor peer = table.detach().to(at::kDouble).requires_grad_(true);
    (at::embedding(peer, tokens) * grad.to(at::kDouble)).sum().backward();
    const at::Tensor rows = Embed(table, tokens);
    EXPECT_TRUE(at::equal(rows, at::embedding(table, tokens)));
    const EmbeddingGradient gradient = EmbedBackward(tokens, grad);
    EXPECT_EQ(gradient.grad_UD.scalar_type(), at::kFloat);
    const at::Tensor all = at::zeros({20, 4}).index_copy(0, gradient.rows_U, gradient.grad_UD);
    EXPECT_TRUE(at::allclose(all.to(at::kDouble), peer.grad(), 1e-5, 1e-5)) << dtype;
  }
}

}  // namespace
}  // namespace buttress
