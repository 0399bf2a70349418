#include "lib/policy/attention.h"

#include <torch/torch.h>

namespace buttress {
namespace {

// [P, heads, C] rows of a rectangle -> [B, query heads, T, C].
at::Tensor Heads(const at::Tensor& rows_PKC, const Rectangle& rectangle, std::int64_t query_heads) {
  const std::int64_t heads = rows_PKC.size(1);
  const std::int64_t width = rows_PKC.size(2);
  const at::Tensor x = rows_PKC.narrow(0, rectangle.first_row, rectangle.sequences * rectangle.length)
                           .view({rectangle.sequences, rectangle.length, heads, width})
                           .transpose(1, 2);
  if (heads == query_heads) return x;
  return x.unsqueeze(2)
      .expand({rectangle.sequences, heads, query_heads / heads, rectangle.length, width})
      .reshape({rectangle.sequences, query_heads, rectangle.length, width});
}

}  // namespace

at::Tensor CausalAttention(const PackedLayout& layout, const at::Tensor& q_NHC, const at::Tensor& k_NKC, const at::Tensor& v_NKC) {
  const at::Tensor q = PadRows(layout, q_NHC);
  const at::Tensor k = PadRows(layout, k_NKC);
  const at::Tensor v = PadRows(layout, v_NKC);
  const std::int64_t heads = q.size(1);
  std::vector<at::Tensor> outs;
  for (const Rectangle& rectangle : layout.rectangles) {
    const at::Tensor out = at::scaled_dot_product_attention(Heads(q, rectangle, heads),
                                                            Heads(k, rectangle, heads),
                                                            Heads(v, rectangle, heads),
                                                            /*attn_mask=*/{},
                                                            /*dropout_p=*/0.0,
                                                            /*is_causal=*/true);
    outs.push_back(out.transpose(1, 2).reshape({rectangle.sequences * rectangle.length, heads * q.size(2)}));
  }
  return UnpadRows(layout, outs.size() == 1 ? outs.front() : at::cat(outs));
}

}  // namespace buttress
