// Root mean square layer normalization (Zhang and Sennrich, arXiv 1910.07467).
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// Returns x / sqrt(mean(x^2) + eps) * weight for each row of x [N, D], computed in float32 and
// returned in the dtype of x. Differentiable.
at::Tensor RmsNorm(const at::Tensor& x_ND, const at::Tensor& weight_D, double eps);

}  // namespace buttress
