// Matrix products by the kernels of block_product.h, in which the bits of a row depend on that row
// alone: for the linear layers and the head of a decoder, from a copy of their weights in the
// layout of the kernels, and for a learner, which has to give the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace buttress {

// Whether RowProduct multiplies with the weight: on CPUs, in float32, or in bfloat16 with an even
// width.
bool HasRowProduct(const at::Tensor& weight_OI);

// Returns x W^T + b, [R, O], of rows x [R, I] and a weight [O, I], in `dtype`, which is that of x,
// or float32. `bias_O` may be undefined. Gives the bits of PackedLinear. REQUIRES: HasRowProduct.
// Not differentiable.
at::Tensor RowProduct(const at::Tensor& x_RI, const at::Tensor& weight_OI, const at::Tensor& bias_O,
                      at::ScalarType dtype);

// Several linear layers over the same input, whose outputs lie side by side. It must be created
// again when the weights change. Where RowProduct has no kernel it reads the weights where they are
// and multiplies by at::linear.
class PackedLinear {
 public:
  // `biases` is empty, or has one [out] for each of `weights` [out, in].
  PackedLinear(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& biases);

  // Maps x [R, in] to [R, outs].
  at::Tensor Apply(const at::Tensor& x) const;

 private:
  std::int64_t outs_;
  at::Tensor blocks_;  // [ceil(outs / kBlockRows), kBlockRows * in], or undefined
  at::Tensor weight_;  // [outs, in], without blocks
  at::Tensor bias_;
};

// HeadLogits of a copy of the head, which must be created again when the weight changes.
class PackedHead {
 public:
  explicit PackedHead(const at::Tensor& head_VD);

  // Returns the logits [R, V] in float32.
  at::Tensor Logits(const at::Tensor& hidden_RD) const;

 private:
  const std::int64_t V_;
  at::Tensor blocks_;   // as those of PackedLinear
  at::Tensor head_VD_;  // without blocks
};

}  // namespace buttress
