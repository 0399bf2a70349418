// Causal grouped-query attention over packed sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/policy/packing.h"

namespace buttress {

// q [N, H, C], k and v [N, K, C] with H a multiple of K -> [N, H*C]; scores are divided by sqrt(C). Differentiable.
at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& q_NHC, const at::Tensor& k_NKC, const at::Tensor& v_NKC);

}  // namespace buttress
