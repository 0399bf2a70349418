// Computes several linear layers over one input as one matrix product.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace buttress {

// Maps x [N, in] to [N, outs], the outputs of the layers with `weights` [out, in] side by side.
// `biases` is empty or has one for each layer. Differentiable.
at::Tensor Linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                  const std::vector<at::Tensor>& biases = {});

}  // namespace buttress
