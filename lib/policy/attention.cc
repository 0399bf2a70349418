#include "lib/policy/attention.h"

#include <torch/torch.h>

#include "lib/policy/short_attention.h"

namespace buttress {
namespace {

// [P, heads * C] rows of a rectangle -> [B, H, T, C]; key-value heads are repeated for the query heads that share them.
at::Tensor HeadsOf(const at::Tensor& rows, const Rectangle& rectangle, const HeadShape& shape) {
  const std::int64_t heads = rows.size(1) / shape.C;
  const at::Tensor x = rows.narrow(0, rectangle.first_row, rectangle.sequences * rectangle.length)
                           .view({rectangle.sequences, rectangle.length, heads, shape.C})
                           .transpose(1, 2);
  if (heads == shape.H) return x;
  return x.unsqueeze(2)
      .expand({rectangle.sequences, heads, shape.H / heads, rectangle.length, shape.C})
      .reshape({rectangle.sequences, shape.H, rectangle.length, shape.C});
}

}  // namespace

at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& qkv, const HeadShape& shape) {
  if (UsesShortAttention(layout, qkv, shape)) return ShortAttention(layout, qkv, shape);
  const auto parts = PadRows(layout, qkv).split_with_sizes({shape.H * shape.C, shape.K * shape.C, shape.K * shape.C}, 1);
  std::vector<at::Tensor> outs;
  for (const Rectangle& rectangle : layout.rectangles) {
    const at::Tensor out = at::scaled_dot_product_attention(HeadsOf(parts[0], rectangle, shape),
                                                            HeadsOf(parts[1], rectangle, shape),
                                                            HeadsOf(parts[2], rectangle, shape),
                                                            /*attn_mask=*/{},
                                                            /*dropout_p=*/0.0,
                                                            /*is_causal=*/true);
    outs.push_back(out.transpose(1, 2).reshape({rectangle.sequences * rectangle.length, shape.H * shape.C}));
  }
  return UnpadRows(layout, outs.size() == 1 ? outs.front() : at::cat(outs));
}

}  // namespace buttress
