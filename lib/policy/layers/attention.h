// Causal grouped-query attention over packed sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/policy/layers/block_spec.h"
#include "lib/policy/weights/packed_layout.h"

namespace buttress {

// What computes an attention.
enum class AttentionPath {
  kShort,   // kernels for short sequences on CPUs (cpu/short_attention.h)
  kVarlen,  // flash attention on GPUs (varlen_attention.h)
  kDense,   // rectangles of padded sequences with masks: on CPUs, and on GPUs what flash attention
            // does not take: float32, caps of the scores (Gemma 2), heads of other sizes
};

AttentionPath PathOf(const PackedLayout& layout, const at::Tensor& qkv, const AttentionSpec& spec);

// Maps qkv [N, (H + 2K) * C], the queries, keys and values of each row side by side, to [N, H * C].
// Differentiable. REQUIRES: PrepareAttention on the layout.
at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& qkv,
                           const AttentionSpec& spec);

// Sets the divisions of the layout that the attention of the blocks needs. `like` has the dtype and
// the device of qkv.
void PrepareAttention(PackedLayout& layout, const std::vector<BlockSpec>& blocks,
                      const at::Tensor& like);

// Attention of queries [B, H, T, C] to keys and values [B, H, S, C] by LibTorch's operators. `mask`
// [.., T, S] is true where a row attends to a key; without one, T = S and rows attend to all keys
// up to their own. The window of `spec` is that of the mask.
at::Tensor DenseAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const std::optional<at::Tensor>& mask, const AttentionSpec& spec);

}  // namespace buttress
