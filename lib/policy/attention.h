// Causal grouped-query attention over packed sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/policy/block_spec.h"
#include "lib/policy/packed_layout.h"

namespace buttress {

// Maps qkv [N, (H + 2K) * C], the queries, keys and values of each row side by side, to [N, H * C].
// Divides scores by sqrt(C). Differentiable.
at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& qkv,
                           const AttentionSpec& spec);

}  // namespace buttress
