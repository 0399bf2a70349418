// Computes several linear layers over one input as one matrix product.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace buttress {

// Maps x [N, in] to [N, outs], the outputs of the layers with `weights` [out, in] side by side.
// `biases` is empty or has one for each layer. Differentiable.
at::Tensor Linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                  const std::vector<at::Tensor>& biases = {});

// Returns tensors one below the other: a view where they are adjacent in memory, as those of a
// model are that one product reads (EmptyWeights), else a copy.
at::Tensor Joined(const std::vector<at::Tensor>& parts);

}  // namespace buttress
