// Attention over packed sequences on GPUs, by LibTorch's flash attention of variable lengths (Dao,
// "FlashAttention-2", arXiv 2307.08691): without padding, masks, or heads repeated for the queries
// that share them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lib/policy/layers/block_spec.h"
#include "lib/policy/weights/packed_layout.h"

namespace buttress {

// Returns whether flash attention computes it: on a GPU, in bfloat16, with heads of at most 256
// values that are a multiple of 8, and without a cap of the scores, which its operator cannot take.
bool UsesVarlenAttention(const at::Tensor& qkv, const AttentionSpec& spec);

// As CausalAttention, with the parts of the layout. Keeps for the backward pass nothing of the size
// of the key rows, which repeat a prefix for each of its continuations. REQUIRES:
// UsesVarlenAttention. Differentiable.
at::Tensor VarlenAttention(const std::vector<VarlenPart>& parts, const at::Tensor& qkv,
                           const AttentionSpec& spec);

}  // namespace buttress
