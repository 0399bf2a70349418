#include "lib/policy/embedding.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace buttress {
namespace {

TEST(EmbeddingTest, AFrequentTokenSumsItsGradientInFloat32) {
  const at::Tensor table = at::ones({5, 3}, at::kBFloat16).requires_grad_(true);
  const at::Tensor tokens = at::cat({at::full({2000}, 3, at::kLong), at::full({7}, 1, at::kLong)});
  Embed(table, tokens).sum().backward();
  const at::Tensor expected = torch::tensor({0.0, 7.0, 0.0, 2000.0, 0.0}, at::kBFloat16);
  EXPECT_TRUE(at::equal(table.grad(), expected.unsqueeze(1).expand({5, 3})));
}

TEST(EmbeddingTest, EqualsTheEmbeddingOfLibTorch) {
  torch::manual_seed(1);
  const at::Tensor tokens = torch::randint(0, 20, {50}, at::kLong);
  const at::Tensor weights = torch::randn({50, 4});
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor table = torch::randn({20, 4}).to(dtype).requires_grad_(true);
    const at::Tensor peer = table.detach().to(at::kDouble).requires_grad_(true);
    const at::Tensor rows = Embed(table, tokens);
    (rows * weights).sum().backward();
    (at::embedding(peer, tokens) * weights.to(dtype).to(at::kDouble)).sum().backward();
    EXPECT_TRUE(at::equal(rows, at::embedding(table, tokens)));
    EXPECT_TRUE(at::allclose(table.grad().to(at::kDouble), peer.grad(), 8e-3, 8e-3)) << dtype;
  }
}

}  // namespace
}  // namespace buttress
