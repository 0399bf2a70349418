// Causal grouped-query attention over packed sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/policy/packed_layout.h"

namespace buttress {

// H query heads and K key-value heads of C values; H is a multiple of K.
struct HeadShape {
  std::int64_t H = 0;
  std::int64_t K = 0;
  std::int64_t C = 0;
};

// Maps qkv [N, (H + 2K) * C], the queries, keys and values of each row side by side, to [N, H * C].
// Divides scores by sqrt(C). Differentiable.
at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& qkv,
                           const HeadShape& heads);

}  // namespace buttress
