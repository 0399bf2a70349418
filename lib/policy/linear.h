// Several linear layers over one input as one matrix product.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace buttress {

// x [N, in] -> [N, outs], the outputs of `weights` [out, in] side by side; `biases` is empty or has
// one for each. Differentiable.
at::Tensor Linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                  const std::vector<at::Tensor>& biases = {});

}  // namespace buttress
