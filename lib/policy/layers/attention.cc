#include "lib/policy/layers/attention.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "lib/policy/cpu/short_attention.h"
#include "lib/policy/layers/varlen_attention.h"

namespace buttress {
namespace {

// Reshapes `sequences` sequences of `length` rows, from row `first` on, from [.., heads * C] to
// [B, H, T, C]. Repeats key-value heads for the query heads that share them.
at::Tensor HeadsOf(const at::Tensor& rows, std::int64_t first, std::int64_t sequences,
                   std::int64_t length, const AttentionSpec& shape) {
  const std::int64_t heads = rows.size(1) / shape.C;
  const at::Tensor x = rows.narrow(0, first, sequences * length)
                           .unflatten(1, {heads, shape.C})
                           .unflatten(0, {sequences, length})
                           .transpose(1, 2);
  if (heads == shape.H) return x;
  return x.unsqueeze(2)
      .expand({sequences, heads, shape.H / heads, length, shape.C})
      .reshape({sequences, shape.H, length, shape.C});
}

// Returns the mask of a rectangle, or none for plain causal attention. With a window, a row does
// not attend to a key if it attends to key + window.
std::optional<at::Tensor> MaskOf(const Rectangle& r, const AttentionSpec& spec, at::Device device) {
  const std::int64_t keys = r.key_length > 0 ? r.key_length : r.length;
  if (r.key_length == 0) {
    if (!spec.windowed(keys)) return std::nullopt;
    return at::ones({keys, keys}, at::TensorOptions(at::kBool).device(device))
        .tril()
        .triu(1 - spec.window);
  }
  if (!spec.windowed(keys)) return r.mask_BTS;
  const at::Tensor later = r.mask_BTS.narrow(-1, spec.window, keys - spec.window);
  return r.mask_BTS.logical_and(at::constant_pad_nd(later, {0, spec.window}, false).logical_not());
}

}  // namespace

at::Tensor DenseAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const std::optional<at::Tensor>& mask, const AttentionSpec& spec) {
  if (spec.score_cap == 0) {
    return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0,
                                            /*is_causal=*/!mask.has_value(), spec.score_scale());
  }
  const at::Tensor allowed =
      mask.has_value() ? *mask
                       : at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril();
  const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) * spec.score_scale();
  const at::Tensor capped = (scores / spec.score_cap).tanh() * spec.score_cap;
  const at::Tensor weights =
      at::softmax(capped.masked_fill(allowed.logical_not(), -INFINITY), -1, at::kFloat);
  return at::matmul(weights.to(q.scalar_type()), v);
}

AttentionPath PathOf(const PackedLayout& layout, const at::Tensor& qkv, const AttentionSpec& spec) {
  if (UsesShortAttention(layout, qkv, spec)) return AttentionPath::kShort;
  return UsesVarlenAttention(qkv, spec) ? AttentionPath::kVarlen : AttentionPath::kDense;
}

void PrepareAttention(PackedLayout& layout, const std::vector<BlockSpec>& blocks,
                      const at::Tensor& like) {
  const auto some_block_takes = [&](AttentionPath path) {
    return std::ranges::any_of(blocks, [&](const BlockSpec& block) {
      return PathOf(layout, like, block.attention) == path;
    });
  };
  if (some_block_takes(AttentionPath::kVarlen)) layout.varlen = LayOutVarlen(layout);
  if (some_block_takes(AttentionPath::kDense)) layout.rectangles = LayOutRectangles(layout);
}

at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& qkv,
                           const AttentionSpec& shape) {
  const AttentionPath path = PathOf(layout, qkv, shape);
  if (path == AttentionPath::kShort) return ShortAttention(layout, qkv, shape);
  if (path == AttentionPath::kVarlen) return VarlenAttention(layout.varlen, qkv, shape);
  const RectangleLayout& rectangles = layout.rectangles;
  const std::int64_t q_width = shape.q_width();
  const std::int64_t kv_width = shape.kv_width();
  const auto packed = PadRows(rectangles, qkv).split_with_sizes({q_width, kv_width, kv_width}, 1);
  std::vector<at::Tensor> shared;  // keys and values of the sequences that continue a prefix
  if (rectangles.key_source_Q.defined()) {
    shared = RepeatRows(qkv.narrow(1, q_width, 2 * kv_width), rectangles.key_source_Q)
                 .split_with_sizes({kv_width, kv_width}, 1);
  }
  std::vector<at::Tensor> outs;
  for (const Rectangle& r : rectangles.rectangles) {
    const at::Tensor q = HeadsOf(packed[0], r.first_row, r.sequences, r.length, shape);
    const auto keys_or_values = [&](std::size_t i) {
      return r.key_length > 0
                 ? HeadsOf(shared[i], r.first_key_row, r.sequences, r.key_length, shape)
                 : HeadsOf(packed[1 + i], r.first_row, r.sequences, r.length, shape);
    };
    const at::Tensor out = DenseAttention(q, keys_or_values(0), keys_or_values(1),
                                          MaskOf(r, shape, qkv.device()), shape);
    outs.push_back(out.transpose(1, 2).reshape({r.sequences * r.length, q_width}));
  }
  return UnpadRows(rectangles, outs.size() == 1 ? outs.front() : at::cat(outs));
}

}  // namespace buttress
