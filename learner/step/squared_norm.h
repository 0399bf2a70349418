// The norm of gradients. Torch.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// Returns the sum of the squares of all values of contiguous float32 tensors on one device, within
// 1e-6 of the exact one whatever their number; not finite if a value is not. The host waits for the
// device once.
double SquaredNorm(at::TensorList tensors);

}  // namespace buttress
