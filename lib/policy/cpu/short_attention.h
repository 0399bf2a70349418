// Attention over packed sequences that are all short, on CPUs: without padding and without an
// operator call for each small matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/policy/attention.h"
#include "lib/policy/packed_layout.h"

namespace buttress {

// CPU tensors in float32 or bfloat16 whose sequences and heads the kernels can hold.
bool UsesShortAttention(const PackedLayout& layout, const at::Tensor& qkv, const HeadShape& shape);

// As CausalAttention. Differentiable.
at::Tensor ShortAttention(const PackedLayout& layout, const at::Tensor& qkv,
                          const HeadShape& shape);

}  // namespace buttress
