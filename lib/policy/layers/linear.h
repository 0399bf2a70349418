// Computes several linear layers over one input as one matrix product.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace buttress {

// Maps x [N, in] to [N, outs], the outputs of the layers with `weights` [out, in] side by side.
// `biases` is empty or has one for each layer. Differentiable.
//
// With `row_wise` and weights that HasRowProduct, gives the bits of PackedLinear, in which a row
// does not depend on the others.
at::Tensor Linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                  const std::vector<at::Tensor>& biases = {}, bool row_wise = false);

// Multiplies the rows x [N, in] of groups, which follow one another and end before rows ends_G
// (int32, on the device), each with the layers of its group: weights[g] as in Linear. Returns
// [N, outs]. One kernel for all groups, and the host does not read ends_G. Differentiable.
// REQUIRES: the matrices of a group lie one behind the other, and the groups at equal distances.
at::Tensor GroupedLinear(const at::Tensor& x, const at::Tensor& ends_G,
                         const std::vector<std::vector<at::Tensor>>& weights);

// Returns tensors one below the other: a view where they are adjacent in memory, as those of a
// model are that one product reads (EmptyWeights), else a copy.
at::Tensor Joined(const std::vector<at::Tensor>& parts);

}  // namespace buttress
