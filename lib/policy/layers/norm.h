// RMSNorm (Zhang and Sennrich, "Root Mean Square Layer Normalization", arXiv 1910.07467).
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// Normalizes each row of x [N, D] as `norm` says, computing in float32. Differentiable.
at::Tensor RmsNorm(const at::Tensor& x_ND, const at::Tensor& weight_D, const NormSpec& norm);

}  // namespace buttress
