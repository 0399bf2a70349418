// The gated unit of the MLP (Shazeer, "GLU Variants Improve Transformer", arXiv 2002.05202).
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// Returns silu(gate) * up, [N, F], for gate_up [N, 2F], which has gate and up side by side.
// Differentiable.
at::Tensor SwiGlu(const at::Tensor& gate_up);

}  // namespace buttress
