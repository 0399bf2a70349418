#include "lib/policy/attention.h"

#include <torch/types.h>

#include "lib/policy/cpu/short_attention.h"

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

}  // namespace

at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& qkv,
                           const AttentionSpec& shape) {
  if (UsesShortAttention(layout, qkv, shape)) return ShortAttention(layout, qkv, shape);
  const RectangleLayout& rectangles = layout.rectangles;
  const std::int64_t q_width = shape.H * shape.C;
  const std::int64_t kv_width = shape.K * shape.C;
  const auto packed = PadRows(rectangles, qkv).split_with_sizes({q_width, kv_width, kv_width}, 1);
  std::vector<at::Tensor> shared;  // keys and values of the sequences that continue a prefix
  if (rectangles.key_source_Q.defined()) {
    shared = KeyRows(rectangles, qkv.narrow(1, q_width, 2 * kv_width))
                 .split_with_sizes({kv_width, kv_width}, 1);
  }
  std::vector<at::Tensor> outs;
  for (const Rectangle& r : rectangles.rectangles) {
    const bool prefixed = r.key_length > 0;
    const at::Tensor q = HeadsOf(packed[0], r.first_row, r.sequences, r.length, shape);
    const auto keys_or_values = [&](std::size_t i) {
      return prefixed ? HeadsOf(shared[i], r.first_key_row, r.sequences, r.key_length, shape)
                      : HeadsOf(packed[1 + i], r.first_row, r.sequences, r.length, shape);
    };
    const at::Tensor out =
        at::scaled_dot_product_attention(q, keys_or_values(0), keys_or_values(1),
                                         prefixed ? std::optional(r.mask_BTS) : std::nullopt,
                                         /*dropout_p=*/0.0,
                                         /*is_causal=*/!prefixed);
    outs.push_back(out.transpose(1, 2).reshape({r.sequences * r.length, q_width}));
  }
  return UnpadRows(rectangles, outs.size() == 1 ? outs.front() : at::cat(outs));
}

}  // namespace buttress
