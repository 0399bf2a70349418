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

// qkv [N, (H + 2K) * C], queries, keys and values side by side -> [N, H * C]; scores are divided by
// sqrt(C). Differentiable.
at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& qkv,
                           const HeadShape& heads);

}  // namespace buttress
