// The gated unit of the MLP (Shazeer, "GLU variants improve transformer", arXiv 2002.05202).
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// silu(gate) * up, [N, F]; gate and up may be column ranges of one tensor. Differentiable.
at::Tensor SwiGlu(const at::Tensor& gate_NF, const at::Tensor& up_NF);

}  // namespace buttress
