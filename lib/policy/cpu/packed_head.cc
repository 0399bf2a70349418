#include "lib/policy/cpu/packed_head.h"

#include <torch/types.h>

#include <algorithm>

#include "lib/policy/cpu/block_product.h"
#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/layers/head.h"

namespace buttress {
namespace {

// Returns the blocks of the weight, [ceil(V / kBlockRows), kBlockRows * D].
at::Tensor Blocks(const at::Tensor& weight_VD) {
  const std::int64_t V = weight_VD.size(0);
  const std::int64_t D = weight_VD.size(1);
  const std::int64_t count = (V + kBlockRows - 1) / kBlockRows;
  at::Tensor blocks = at::empty({count, kBlockRows * D}, weight_VD.options());
  ForShares(count, kBlockRows * D, [&](std::int64_t first, std::int64_t some) {
    for (std::int64_t b = first; b < first + some; ++b) {
      const std::int64_t row = b * kBlockRows;
      PackBlock(Rows<Bf16>(weight_VD, row), std::min(kBlockRows, V - row), D,
                MutableRows<Bf16>(blocks, b));
    }
  });
  return blocks;
}

at::Tensor Product(const at::Tensor& x_RD, const at::Tensor& blocks) {
  const std::int64_t R = x_RD.size(0);
  const std::int64_t D = x_RD.size(1);
  const std::int64_t stride = blocks.size(0) * kBlockRows;
  at::Tensor out = at::empty({R, stride}, x_RD.options().dtype(at::kFloat));
  ForShares(blocks.size(0), R * D * kBlockRows, [&](std::int64_t first, std::int64_t some) {
    for (std::int64_t b = first; b < first + some; ++b) {
      BlockProduct({.x = Rows<Bf16>(x_RD, 0),
                    .block = Rows<Bf16>(blocks, b),
                    .out = MutableRows<float>(out, 0) + b * kBlockRows,
                    .rows = R,
                    .D = D,
                    .stride = stride});
    }
  });
  return out;
}

}  // namespace

PackedHead::PackedHead(const at::Tensor& head_VD) : V_(head_VD.size(0)) {
  const at::Tensor head = head_VD.detach();
  if (head.scalar_type() == at::kFloat) {
    linear_.emplace(std::vector<at::Tensor>{head}, std::vector<at::Tensor>{});
  } else if (HasRowKernels(head) && head.size(1) % 2 == 0) {
    blocks_ = Blocks(head.contiguous());
  } else {
    head_VD_ = head;
  }
}

// The kernel computes each row by itself; tiles would only add work.
at::Tensor PackedHead::Logits(const at::Tensor& hidden_RD, std::int64_t tile_rows) const {
  if (linear_) return linear_->Apply(hidden_RD, tile_rows);
  if (blocks_.defined()) return Product(hidden_RD.contiguous(), blocks_).narrow(1, 0, V_);
  return ApplyInTiles(hidden_RD, tile_rows,
                      [this](const at::Tensor& tile) { return HeadLogits(tile, head_VD_); });
}

}  // namespace buttress
