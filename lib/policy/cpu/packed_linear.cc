#include "lib/policy/cpu/packed_linear.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "lib/policy/cpu/block_product.h"
#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/layers/embedding_and_head.h"
#include "lib/policy/layers/linear.h"

namespace buttress {
namespace {

// MKL sums the products of narrower float32 matrices in an order that depends on the row. Zeros
// make a matrix wide enough.
constexpr std::int64_t kMinColumns = 12;

at::Tensor WithMinColumns(const at::Tensor& x) {
  const std::int64_t missing = kMinColumns - x.size(-1);
  return missing > 0 ? at::constant_pad_nd(x, {0, missing}) : x;
}

// ATen declares no C++ functions for the operators of oneDNN; the dispatcher finds them by name.
template <class Signature>
auto FindOperator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

bool BlockedBf16Works() {
  static const bool works =
      at::hasMKLDNN() && FindOperator<bool()>("mkldnn::_is_mkldnn_bf16_supported").call();
  return works;
}

at::Tensor Reorder(const at::Tensor& weight) {
  static const auto reorder =
      FindOperator<at::Tensor(const at::Tensor&, std::optional<c10::SymInt>)>(
          "mkldnn::_reorder_linear_weight");
  return reorder.call(weight, std::nullopt);
}

at::Tensor BlockedLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  using Signature = at::Tensor(
      const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
      c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto linear = FindOperator<Signature>("mkldnn::_linear_pointwise");
  return linear.call(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, "none",
                     c10::List<std::optional<at::Scalar>>(), std::nullopt);
}

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

PackedLinear::PackedLinear(const std::vector<at::Tensor>& weights,
                           const std::vector<at::Tensor>& biases) {
  const at::Tensor all = Joined(weights).detach();
  if (!biases.empty()) bias_ = at::cat(biases).detach();
  outs_ = all.size(0);
  form_ = Form::kPlain;
  if (HasRowKernels(all) && all.scalar_type() == at::kFloat) form_ = Form::kTransposed;
  if (HasRowKernels(all) && all.scalar_type() == at::kBFloat16 && BlockedBf16Works())
    form_ = Form::kBlocked;
  switch (form_) {
    case Form::kPlain:
      weight_ = all;
      break;
    case Form::kTransposed:
      weight_ = WithMinColumns(all.t()).contiguous();
      if (bias_.defined()) bias_ = WithMinColumns(bias_);
      break;
    case Form::kBlocked:
      weight_ = Reorder(all);
      break;
  }
}

at::Tensor PackedLinear::ApplyOnce(const at::Tensor& x) const {
  switch (form_) {
    case Form::kPlain:
      return at::linear(x, weight_, bias_);
    case Form::kTransposed:
      return (bias_.defined() ? at::addmm(bias_, x, weight_) : at::mm(x, weight_))
          .narrow(1, 0, outs_)
          .contiguous();
    case Form::kBlocked:
      return BlockedLinear(x, weight_, bias_);
  }
  return {};
}

at::Tensor PackedLinear::Apply(const at::Tensor& x, std::int64_t tile_rows) const {
  return ApplyInTiles(x, tile_rows, [this](const at::Tensor& tile) { return ApplyOnce(tile); });
}

at::Tensor ApplyInTiles(const at::Tensor& x, std::int64_t tile_rows,
                        const std::function<at::Tensor(const at::Tensor& tile)>& apply) {
  if (tile_rows == 0 || x.size(0) == tile_rows) return apply(x);
  std::vector<at::Tensor> outs;
  for (std::int64_t first = 0; first < x.size(0); first += tile_rows) {
    const std::int64_t rows = std::min(tile_rows, x.size(0) - first);
    at::Tensor tile = x.narrow(0, first, rows);
    if (rows < tile_rows) tile = at::constant_pad_nd(tile, {0, 0, 0, tile_rows - rows});
    outs.push_back(apply(tile.contiguous()).narrow(0, 0, rows));
  }
  return at::cat(outs);
}

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
