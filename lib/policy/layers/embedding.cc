#include "lib/policy/layers/embedding.h"

#include <torch/types.h>

#include <tuple>

namespace buttress {

at::Tensor Embed(const at::Tensor& table_VD, const at::Tensor& tokens_N) {
  return table_VD.index_select(0, tokens_N);
}

EmbeddingGradient EmbedBackward(const at::Tensor& tokens_N, const at::Tensor& grad_ND) {
  const at::NoGradGuard no_grad;
  const auto [rows_U, row_of_token_N, counts] =
      at::_unique2(tokens_N, /*sorted=*/true, /*return_inverse=*/true);
  const at::Tensor grad_UD =
      at::embedding_dense_backward(grad_ND.to(at::kFloat), row_of_token_N, rows_U.size(0),
                                   /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
  return {rows_U, grad_UD};
}

}  // namespace buttress
