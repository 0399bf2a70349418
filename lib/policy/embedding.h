// The first layer of a decoder: one row of a table for each token.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// Returns the rows of `table_VD` for `tokens_N`, [N, D]. Differentiable. The gradient of a row is
// summed in float32 over the tokens that read it.
at::Tensor Embed(const at::Tensor& table_VD, const at::Tensor& tokens_N);

}  // namespace buttress
