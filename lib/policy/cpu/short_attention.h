// Attention over packed sequences that are all short, on CPUs. It needs neither padding nor an
// operator call for each small matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/policy/layers/attention.h"
#include "lib/policy/weights/packed_layout.h"

namespace buttress {

// Returns whether the kernels support the tensor, the lengths of its sequences and the attention:
// they have neither windows nor caps.
bool UsesShortAttention(const PackedLayout& layout, const at::Tensor& qkv,
                        const AttentionSpec& shape);

// As CausalAttention. REQUIRES: UsesShortAttention. Differentiable.
at::Tensor ShortAttention(const PackedLayout& layout, const at::Tensor& qkv,
                          const AttentionSpec& shape);

}  // namespace buttress
