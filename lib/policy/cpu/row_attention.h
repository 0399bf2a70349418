// The attention of packed sequences with the bits of a decoder's attention to its cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/policy/layers/block_spec.h"
#include "lib/policy/weights/packed_layout.h"

namespace buttress {

// As CausalAttention, with the bits of CachedAttention where that runs the CPU kernels; elsewhere
// it is CausalAttention. Its gradient is that of CausalAttention, which it runs as well.
// Differentiable.
at::Tensor RowAttention(const PackedLayout& layout, const at::Tensor& qkv,
                        const AttentionSpec& spec);

}  // namespace buttress
