// RMSNorm (Zhang and Sennrich, "Root Mean Square Layer Normalization", arXiv 1910.07467), of rows
// and of query and key heads (Henry et al., "Query-Key Normalization for Transformers", arXiv
// 2010.04245).
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// Normalizes each row of x [N, D] as `norm` says, computing in float32. Differentiable. REQUIRES:
// `weight_D` has the dtype of x.
at::Tensor RmsNorm(const at::Tensor& x_ND, const at::Tensor& weight_D, const NormSpec& norm);

// Normalizes each query head of qkv [N, (H + 2K) * C] with q_weight [C] and each key head with
// k_weight [C], and returns the result with the values as they are. May reuse the memory of qkv.
// Differentiable.
at::Tensor NormHeads(at::Tensor qkv, const AttentionSpec& spec, const at::Tensor& q_weight_C,
                     const at::Tensor& k_weight_C, const NormSpec& norm);

}  // namespace buttress
