// The gated unit of the MLP (Shazeer, "GLU variants improve transformer", arXiv 2002.05202).
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// silu(gate) * up, [N, F], of gate and up side by side, [N, 2F]. Differentiable.
at::Tensor SwiGlu(const at::Tensor& gate_up);

}  // namespace buttress
