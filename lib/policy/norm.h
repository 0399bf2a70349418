// Root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467), in float32 whatever the
// parameters' dtype.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// x [N, D] / sqrt(mean(x^2) + eps) * weight [D]; x's dtype stays. Differentiable.
at::Tensor RmsNorm(const at::Tensor& x_ND, const at::Tensor& weight_D, double eps);

}  // namespace buttress
