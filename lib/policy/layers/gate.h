// The gated activation of an MLP (Shazeer, "GLU Variants Improve Transformer", arXiv 2002.05202).
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// Maps gate_up [N, 2F], the gates and then the values of each row, to activation(gate) * value
// [N, F]. Differentiable.
at::Tensor Gate(const at::Tensor& gate_up, Activation activation);

}  // namespace buttress
