// The norm of gradients. Torch.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// Returns the sum of the squares of all values of contiguous float32 tensors on one device, a
// float64 scalar there, within 1e-6 of the exact one whatever their number; not finite if a value
// is not. The host does not wait for the device.
at::Tensor SquaredNorm(at::TensorList tensors);

}  // namespace buttress
