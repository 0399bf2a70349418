// The last layer of a decoder.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// Returns the logits hidden head^T, [N, V], in float32 whatever the dtype of hidden [N, D] and head
// [V, D]: between 16 and 32, where the logits of likely tokens lie, bfloat16 has steps of 1/8.
// Not differentiable for bfloat16.
at::Tensor HeadLogits(const at::Tensor& hidden_ND, const at::Tensor& head_VD);

// Returns cap * tanh(logits / cap), or the logits if cap is 0, and its derivative. Differentiable.
at::Tensor CapLogits(const at::Tensor& logits, double cap);
at::Tensor CapSlope(const at::Tensor& logits, double cap);

}  // namespace buttress
