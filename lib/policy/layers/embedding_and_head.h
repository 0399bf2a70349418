// The first layer of a decoder, one row of a table for each token, and the last one, the logits.
//
// Shapes: N tokens, D width, V vocabulary, U different tokens.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// The gradient of a table of embeddings, which is 0 in all other rows.
struct EmbeddingGradient {
  at::Tensor rows_U;   // ascending
  at::Tensor grad_UD;  // float32
};

// Returns the rows of `table_VD` for `tokens_N`, [N, D]. Differentiable by autograd, which makes a
// gradient of the size of the table.
at::Tensor Embed(const at::Tensor& table_VD, const at::Tensor& tokens_N);

// Returns what `grad_ND`, the gradient of the rows for `tokens_N`, adds to the table: that of a row
// is summed in float32 over the tokens that read it. No tensor of the size of the table is made.
// The host waits for no device if the tokens are on the CPU, where it finds the different ones.
EmbeddingGradient EmbedBackward(const at::Tensor& tokens_N, const at::Tensor& grad_ND);

// Returns the logits hidden head^T, [N, V], in float32 whatever the dtype of hidden [N, D] and head
// [V, D]: between 16 and 32, where the logits of likely tokens lie, bfloat16 has steps of 1/8.
// Not differentiable for bfloat16.
at::Tensor HeadLogits(const at::Tensor& hidden_ND, const at::Tensor& head_VD);

// Returns cap * tanh(logits / cap), or the logits if cap is 0. Differentiable.
at::Tensor CapLogits(const at::Tensor& logits, double cap);

// Returns the derivative of CapLogits where its value is `capped`.
at::Tensor CapSlope(const at::Tensor& capped, double cap);

}  // namespace buttress
