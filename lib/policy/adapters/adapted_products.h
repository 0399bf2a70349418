// The matrix products of a block with its adapters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "lib/policy/adapters/adapters.h"
#include "lib/policy/layers/block.h"

namespace buttress {

// Adds scale * (x A^T) B^T to the products of `base`, in float32, and rounds once. Differentiable
// in x, A, B and what `base` is differentiable in. With `row_wise`, the bits of a row do not depend
// on the other rows (RowProduct).
class AdaptedProducts final : public BlockProducts {
 public:
  // The arguments must outlive it. REQUIRES: one MLP if it has an adapter.
  AdaptedProducts(const BlockProducts& base, const LayerAdapters& adapters, double scale,
                  bool row_wise = false)
      : base_(base), adapters_(adapters), scale_(scale), row_wise_(row_wise) {}

  at::Tensor Qkv(const at::Tensor& x_ND) const override;
  at::Tensor Out(const at::Tensor& attended) const override;
  at::Tensor Router(const at::Tensor& x_ND) const override;
  at::Tensor GateUp(std::size_t mlp, const at::Tensor& x_ND) const override;
  at::Tensor Down(std::size_t mlp, const at::Tensor& gated_NF) const override;

  const std::vector<MlpWeights>* grouped() const override { return base_.grouped(); }

  ExpertPeers* peers() const override { return base_.peers(); }

 private:
  // An adapter of a joint product. Its outputs begin so many of its widths before the end of the
  // row, or at the beginning if that is 0.
  struct Part {
    const Adapter& adapter;
    std::int64_t widths_before_end;
  };

  at::Tensor Adapted(const at::Tensor& base, const at::Tensor& x,
                     std::initializer_list<Part> parts) const;

  const BlockProducts& base_;
  const LayerAdapters& adapters_;
  const double scale_;
  const bool row_wise_;
};

}  // namespace buttress
