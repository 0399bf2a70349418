// The gated activation of an MLP (Shazeer, "GLU Variants Improve Transformer", arXiv 2002.05202),
// and mixtures of expert MLPs (Shazeer et al., "Outrageously Large Neural Networks", arXiv
// 1701.06538).
//
// Shapes: N rows, D width, F width of the MLP, E experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// Maps gate_up [N, 2F], the gates and then the values of each row, to activation(gate) * value
// [N, F]. Differentiable.
at::Tensor Gate(const at::Tensor& gate_up, Activation activation);

// Maps rows [n, D] to the outputs [n, D] of one expert.
using ExpertMlp = std::function<at::Tensor(std::size_t expert, const at::Tensor& rows)>;

// Runs for each row of x [N, D] the spec.top_k experts whose router logits [N, E] are largest, and
// returns the sums of their outputs [N, D], weighted by the softmax of the logits. `router_NE` is
// float32, and so are weights and sums. Differentiable if `mlp` is; calls it for experts without
// rows only for their zero gradients.
at::Tensor MixExperts(const ExpertSpec& spec, const at::Tensor& router_NE, const at::Tensor& x_ND,
                      const ExpertMlp& mlp);

}  // namespace buttress
