// Shapes: R rows, I inputs, O outputs, B blocks of outputs.
#include "lib/policy/cpu/packed_linear.h"

#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "lib/policy/cpu/block_product.h"
#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/layers/embedding_and_head.h"
#include "lib/policy/layers/linear.h"

namespace buttress {
namespace {

// The rows that a thread multiplies with a block at a time, where there are few blocks.
constexpr std::int64_t kRowsAtOnce = 48;

std::int64_t BlocksOf(std::int64_t outs) { return (outs + kBlockRows - 1) / kBlockRows; }

// The arguments of a product, over the rows of x.
struct Operands {
  const at::Tensor& x_RI;
  const at::Tensor& bias_O;
  at::Tensor& out_RO;

  // Multiplies rows [first, first + rows) with block `b`.
  template <class T, class Out>
  void Multiply(const T* block, std::int64_t b, std::int64_t first, std::int64_t rows) const {
    const std::int64_t column = b * kBlockRows;
    BlockProduct(BlockProductArgs<T, Out>{
        .x = Rows<T>(x_RI, first),
        .block = block,
        .bias =
            bias_O.defined() ? static_cast<const T*>(bias_O.const_data_ptr()) + column : nullptr,
        .out = MutableRows<Out>(out_RO, first) + column,
        .rows = rows,
        .D = x_RI.size(1),
        .columns = std::min(kBlockRows, out_RO.size(1) - column),
        .stride = out_RO.stride(0)});
  }

  // Calls `use` with values of the types of x and of the outputs.
  template <class Use>
  void WithTypes(const Use& use) const {
    if (x_RI.scalar_type() == at::kFloat) {
      use(float(), float());
    } else if (out_RO.scalar_type() == at::kFloat) {
      use(Bf16(), float());
    } else {
      use(Bf16(), Bf16());
    }
  }
};

// Returns the blocks of the weight, [B, kBlockRows * I].
at::Tensor Blocks(const at::Tensor& weight_OI) {
  const std::int64_t O = weight_OI.size(0);
  const std::int64_t I = weight_OI.size(1);
  at::Tensor blocks = at::empty({BlocksOf(O), kBlockRows * I}, weight_OI.options());
  ForRows(weight_OI, BlocksOf(O), kBlockRows * I,
          [&](auto tag, std::int64_t first, std::int64_t some) {
            using T = decltype(tag);
            for (std::int64_t b = first; b < first + some; ++b) {
              const std::int64_t row = b * kBlockRows;
              PackBlock(Rows<T>(weight_OI, row), std::min(kBlockRows, O - row), I,
                        MutableRows<T>(blocks, b));
            }
          });
  return blocks;
}

// Divides blocks and rows among the threads.
at::Tensor Product(const at::Tensor& x, const at::Tensor& blocks, const at::Tensor& bias_O,
                   std::int64_t outs, at::ScalarType dtype) {
  const at::Tensor x_RI = x.contiguous();
  const std::int64_t R = x_RI.size(0);
  at::Tensor out_RO = at::empty({R, outs}, x_RI.options().dtype(dtype));
  const Operands operands = {x_RI, bias_O, out_RO};
  const std::int64_t parts = (R + kRowsAtOnce - 1) / kRowsAtOnce;
  const std::int64_t work = x_RI.size(1) * kBlockRows * std::min(R, kRowsAtOnce);
  operands.WithTypes([&]<class T, class Out>(T, Out) {
    ForShares(blocks.size(0) * parts, work, [&](std::int64_t first, std::int64_t some) {
      for (std::int64_t i = first; i < first + some; ++i) {
        const std::int64_t row = i % parts * kRowsAtOnce;
        operands.template Multiply<T, Out>(Rows<T>(blocks, i / parts), i / parts, row,
                                           std::min(kRowsAtOnce, R - row));
      }
    });
  });
  return out_RO;
}

}  // namespace

bool HasRowProduct(const at::Tensor& weight_OI) {
  return HasRowKernels(weight_OI) &&
         (weight_OI.scalar_type() == at::kFloat || weight_OI.size(1) % 2 == 0);
}

// Packs each block when its turn comes, which costs as much as a few rows.
at::Tensor RowProduct(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias_O,
                      at::ScalarType dtype) {
  const at::Tensor x_RI = x.contiguous();
  const at::Tensor weight_OI = weight.contiguous();
  const std::int64_t R = x_RI.size(0);
  const std::int64_t O = weight_OI.size(0);
  const std::int64_t I = weight_OI.size(1);
  at::Tensor out_RO = at::empty({R, O}, x_RI.options().dtype(dtype));
  const Operands operands = {x_RI, bias_O, out_RO};
  operands.WithTypes([&]<class T, class Out>(T, Out) {
    ForShares(BlocksOf(O), R * I * kBlockRows, [&](std::int64_t first, std::int64_t some) {
      std::vector<T> block(static_cast<std::size_t>(kBlockRows * I));
      for (std::int64_t b = first; b < first + some; ++b) {
        const std::int64_t row = b * kBlockRows;
        PackBlock(Rows<T>(weight_OI, row), std::min(kBlockRows, O - row), I, block.data());
        operands.template Multiply<T, Out>(block.data(), b, 0, R);
      }
    });
  });
  return out_RO;
}

PackedLinear::PackedLinear(const std::vector<at::Tensor>& weights,
                           const std::vector<at::Tensor>& biases) {
  const at::Tensor all = Joined(weights).detach();
  if (!biases.empty()) bias_ = at::cat(biases).detach();
  outs_ = all.size(0);
  if (HasRowProduct(all)) {
    blocks_ = Blocks(all.contiguous());
  } else {
    weight_ = all;
  }
}

at::Tensor PackedLinear::Apply(const at::Tensor& x) const {
  return blocks_.defined() ? Product(x, blocks_, bias_, outs_, x.scalar_type())
                           : at::linear(x, weight_, bias_);
}

PackedHead::PackedHead(const at::Tensor& head_VD) : V_(head_VD.size(0)) {
  const at::Tensor head = head_VD.detach();
  if (HasRowProduct(head)) {
    blocks_ = Blocks(head.contiguous());
  } else {
    head_VD_ = head;
  }
}

at::Tensor PackedHead::Logits(const at::Tensor& hidden_RD) const {
  return blocks_.defined() ? Product(hidden_RD, blocks_, at::Tensor(), V_, at::kFloat)
                           : HeadLogits(hidden_RD, head_VD_);
}

}  // namespace buttress
